import assert from 'node:assert/strict';
import { test } from 'node:test';
import { qosChange, qosForm, qosProblems } from './qos.ts';

const LIMITED = {
  max_iops: 2000,
  burst_iops: null,
  max_bytes_per_second: 1024 ** 2,
  burst_bytes_per_second: null,
  min_iops: null,
};

test('a form that was not touched changes nothing', () => {
  assert.deepEqual(qosChange(LIMITED, qosForm(LIMITED)), {});
  assert.deepEqual(qosChange(null, qosForm(null)), {});
});

test('an emptied field lifts its limit, another sets it', () => {
  assert.deepEqual(qosChange(LIMITED, { ...qosForm(LIMITED), max_iops: '', min_iops: '50' }), { max_iops: 0, min_iops: 50 });
});

test('0 lifts a limit of either kind', () => {
  const form = { ...qosForm(LIMITED), max_iops: '0', max_bytes_per_second: '0', min_iops: '0' };
  assert.deepEqual(qosProblems(form), {});
  assert.deepEqual(qosChange(LIMITED, form), { max_iops: 0, max_bytes_per_second: 0 });
});

test('what is no number or size is said at its field', () => {
  const form = { ...qosForm(null), max_iops: '-3', max_bytes_per_second: 'fast', burst_iops: '5' };
  assert.deepEqual(Object.keys(qosProblems(form)).sort(), ['max_bytes_per_second', 'max_iops']);
  assert.deepEqual(Object.keys(qosProblems({ ...qosForm(null), burst_iops: '5' })), ['burst_iops']);
});
