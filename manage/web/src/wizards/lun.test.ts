// A LUN as it is sent, and what is wrong with one.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { lunForm, lunProblems, lunRequest } from './lun.ts';

test('a space is a LUN with the usual blocks and the lowest number', () => {
  const form = { ...lunForm(), space: 'tank/vm' };
  assert.deepEqual(lunRequest(form), { backing: 'tank/vm' });
  assert.ok(Object.values(lunProblems(form)).every((one) => one === undefined));
  assert.deepEqual(lunRequest({ ...form, number: '7', blocks: '4096', readOnly: true }), {
    backing: 'tank/vm',
    lun: 7,
    blocks: '4096',
    read_only: true,
  });
});

test('a file is made with its size, or is there already', () => {
  const form = { ...lunForm(), of: 'file' as const, volume: 'tank/files', path: '/vm/disk', size: '1GiB' };
  assert.deepEqual(lunRequest(form), { backing: 'tank/files:/vm/disk', size_bytes: 2 ** 30 });
  assert.deepEqual(lunRequest({ ...form, make: false }), { backing: 'tank/files:/vm/disk' });
  assert.deepEqual(lunRequest({ ...form, full: true, alert: '0' }), {
    backing: 'tank/files:/vm/disk',
    alert_percent: 0,
    size_bytes: 2 ** 30,
    full: true,
  });
  assert.equal(lunProblems({ ...form, alert: '101' }).alert !== undefined, true);
  assert.equal(lunProblems({ ...form, size: '1000' }).size !== undefined, true);
  assert.equal(lunProblems({ ...form, size: '1000', make: false }).size, undefined);
  assert.equal(lunProblems({ ...form, path: 'disk' }).path !== undefined, true);
});

test('what is missing is said', () => {
  assert.equal(lunProblems(lunForm()).backing, 'Create a space first, or choose a file of a volume.');
  assert.equal(lunProblems({ ...lunForm(), of: 'file' }).backing, 'Create a volume first, or choose a space.');
  assert.equal(lunProblems({ ...lunForm(), space: 'tank/vm', number: '300' }).number !== undefined, true);
});
