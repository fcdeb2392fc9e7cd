import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileWords, quotaForm, quotaProblems, quotaRequest, share, sizeWords, stateWords, whose } from './quotas.ts';

const GIB = 1024 ** 3;
const quota = {
  kind: 'tree' as const,
  name: '/projects',
  id: null,
  hard_bytes: 10 * GIB,
  soft_bytes: null,
  hard_files: 100,
  soft_files: null,
  used_bytes: 2 * GIB,
  used_files: 90,
  state: 'settled' as const,
  refused: 0,
};

test('what is entered is what is asked for', () => {
  const form = { ...quotaForm(null), name: ' /projects ', hard: '10GiB', softFiles: '90' };
  assert.deepEqual(quotaRequest(form), {
    path: '/projects',
    hard_bytes: 10 * GIB,
    soft_bytes: null,
    hard_files: null,
    soft_files: 90,
  });
  assert.deepEqual(Object.values(quotaProblems(form)).filter(Boolean), []);
  assert.deepEqual(whose('group', 'staff'), { group: 'staff' });
  assert.deepEqual(quotaRequest(quotaForm(quota)), {
    path: '/projects',
    hard_bytes: 10 * GIB,
    soft_bytes: null,
    hard_files: 100,
    soft_files: null,
  });
});

test('what cannot be meant is told at its field', () => {
  const form = quotaForm(null);
  assert.match(quotaProblems(form).hard ?? '', /at least one/);
  assert.match(quotaProblems({ ...form, hard: 'much' }).hard ?? '', /not a size/);
  assert.match(quotaProblems({ ...form, hardFiles: '1.5' }).hardFiles ?? '', /whole number/);
  assert.match(quotaProblems({ ...form, name: 'projects', hard: '1GiB' }).name ?? '', /path/);
  assert.match(quotaProblems({ ...form, kind: 'user', name: ' ', hard: '1GiB' }).name ?? '', /name or number/);
});

test('how full a quota is goes by what it takes more of', () => {
  assert.equal(share(quota), 0.9);
  assert.equal(share({ ...quota, hard_bytes: null, hard_files: null }), null);
  assert.equal(stateWords({ ...quota, state: 'counting' }), 'Being counted');
  assert.equal(sizeWords(quota), '2 GiB of 10 GiB');
  assert.equal(sizeWords({ ...quota, hard_bytes: null, soft_bytes: GIB }), '2 GiB of 1 GiB (soft)');
  assert.equal(fileWords(quota), '90 of 100');
});
