import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inWords, summary } from './series.ts';

test('gaps count for nothing', () => {
  assert.deepEqual(summary([null, 2, 4, null]), { last: null, mean: 3, most: 4 });
  assert.deepEqual(summary([null]), { last: null, mean: null, most: null });
});

test('a chart can be read aloud', () => {
  const format = (value: number | null) => (value === null ? 'none' : `${value}/s`);
  assert.equal(inWords([{ label: 'Reads', values: [2, 4] }], format), 'Reads: now 4/s, on average 3/s, at most 4/s.');
  assert.equal(inWords([{ label: 'Reads', values: [] }], format), 'Reads: no samples.');
});
