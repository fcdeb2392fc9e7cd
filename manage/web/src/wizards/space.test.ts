import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { FailureCode } from '../lib/api/client.ts';
import { requestOf, spaceField, spaceProblems, type SpaceForm } from './space.ts';

const usual: SpaceForm = {
  pool: 'tank',
  name: 'vm',
  resilience: 'mirror-2',
  size: '1GiB',
  thin: false,
  columns: '',
  interleave: 262_144,
  journal: '',
  checksums: true,
  enclosures: false,
};
const wrong = (form: Partial<SpaceForm>) =>
  Object.entries(spaceProblems({ ...usual, ...form })).flatMap(([field, problem]) => (problem ? [field] : []));

test('what is as usual is left to the server', () => {
  assert.deepEqual(requestOf(usual), { name: 'tank/vm', layout: 'mirror', copies: 2, size_bytes: 1024 ** 3 });
});

test('everything can be said', () => {
  const all: SpaceForm = {
    ...usual,
    resilience: 'parity-2',
    thin: true,
    columns: '6',
    interleave: 65_536,
    journal: '64MiB',
    checksums: false,
    enclosures: true,
  };
  assert.deepEqual(requestOf(all), {
    name: 'tank/vm',
    layout: 'parity',
    parity: 2,
    columns: 6,
    interleave_bytes: 65_536,
    journal_bytes: 64 * 1024 ** 2,
    integrity: 'none',
    size_bytes: 1024 ** 3,
    thin: true,
    enclosure_aware: true,
  });
});

test('a journal is sent with parity alone', () => {
  assert.equal(requestOf({ ...usual, journal: '64MiB' }).journal_bytes, undefined);
});

test('each wrong input is said at its field', () => {
  assert.deepEqual(wrong({}), []);
  assert.deepEqual(wrong({ name: 'a b', size: 'much', columns: 'x' }), ['name', 'size', 'columns']);
  assert.deepEqual(wrong({ size: '100', pool: '' }), ['pool', 'size']);
  assert.deepEqual(wrong({ resilience: 'parity-1', journal: '1MiB' }), ['journal']);
});

test('a refusal of the server finds its field', () => {
  const at = (code: FailureCode, field: string | null) => spaceField({ code, field });
  assert.equal(at('exists', 'layout'), 'name');
  assert.equal(at('no-space', 'size_bytes'), 'size');
  assert.equal(at('invalid', 'columns'), 'columns');
  assert.equal(at('invalid', 'enclosure_aware'), 'enclosures');
  assert.equal(at('not-found', 'name'), 'pool');
  assert.equal(at('conflict', null), undefined);
  assert.equal(at('invalid', 'toString'), undefined);
});
