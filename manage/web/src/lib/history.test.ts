import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { History, LiveSample, Rates } from './api/types.ts';
import { IDLE, timeline, together } from './history.ts';

const rates = (reads: number): Rates => ({ ...IDLE, reads, read_p99_us: reads });
const sample = (time_ms: number, reads: number): LiveSample => ({
  time_ms,
  server: rates(reads),
  spaces: { 'tank/a': rates(reads), 'tank/b': rates(1) },
  exports: {},
  luns: {},
  volumes: {},
  jobs: [],
});
const none = [null, null, null];
const history: History = {
  kind: 'server',
  name: '',
  step_seconds: 1,
  start_ms: 10_000,
  reads: [1, null, 3],
  writes: none,
  read_bytes: none,
  written_bytes: none,
  read_p50_us: none,
  read_p99_us: none,
  write_p50_us: none,
  write_p99_us: none,
};

test('samples go on where the history ends, and the oldest figures leave', () => {
  const line = timeline(history, [sample(12_000, 9), sample(13_000, 4)], (one) => one.server);
  assert.deepEqual(line.times, [11, 12, 13]);
  assert.deepEqual(line.reads, [null, 3, 4]);
  assert.deepEqual(line.read_p99_us, [null, null, 4]);
});

test('what spaces did is added up, how long it took is not', () => {
  assert.deepEqual(together(sample(0, 4), ['tank/a', 'tank/b', 'tank/c']), { ...IDLE, reads: 5 });
  assert.equal(together(sample(0, 4), ['tank/a']).read_p99_us, 4);
  assert.deepEqual(together(undefined, ['tank/a']), IDLE);
});
