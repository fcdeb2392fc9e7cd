import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SnapshotDifference, VolumeSnapshot } from './api/types';
import { madeBy, partWords, pathProblem, placeWords, places, ruleProblems, ruleRequest, sameRule } from './snapshots.ts';
import { timeOfDay } from './times.ts';

const difference = (more: Partial<SnapshotDifference>): SnapshotDifference => ({
  change: 'changed',
  kind: 'file',
  path: '/a',
  path_before: '/a',
  size_bytes: 1,
  size_bytes_before: 1,
  modified: '2026-11-26T06:00:00.000Z',
  data: false,
  names: false,
  attributes: false,
  ...more,
});
const snapshot = (name: string, created: string, every?: number): VolumeSnapshot => ({
  name,
  created,
  files: 1,
  kept_bytes: 0,
  every_seconds: every ?? null,
});

test('a file that moved is told with both places', () => {
  assert.equal(placeWords(difference({ names: true, path: '/b' })), '/b (was /a)');
  assert.equal(placeWords(difference({ change: 'removed', path: null })), '/a');
  assert.equal(placeWords(difference({ path: null, path_before: null })), '?');
  assert.equal(partWords(difference({ data: true, attributes: true })), 'data, attributes');
  assert.equal(partWords(difference({ change: 'created', data: true })), '');
});

test('snapshots stand on the line between the oldest and now', () => {
  const now = Date.parse('2026-11-26T10:00:00Z');
  const all = [snapshot('a', '2026-11-26T06:00:00Z'), snapshot('b', '2026-11-26T08:00:00Z', 3600)];
  assert.deepEqual(places(all, now), [
    { name: 'a', at: 0 },
    { name: 'b', at: 0.5 },
  ]);
  assert.deepEqual(places([], now), []);
  assert.deepEqual(places([snapshot('later', '2026-11-26T11:00:00Z')], now), [{ name: 'later', at: 1 }]);
  assert.deepEqual(all.map(madeBy), ['Hand', 'Schedule, each 1h']);
});

test('rules are whole minutes and keep something', () => {
  assert.deepEqual(ruleRequest({ every: '15m', keep: ' 24 ', at: '03:00' }), { every_seconds: 900, keep: 24 });
  assert.deepEqual(ruleProblems({ every: '1h', keep: '24', at: '' }), { every: undefined, keep: undefined });
  for (const every of ['', 'never', '90s', 'x']) assert.ok(ruleProblems({ every, keep: '1', at: '' }).every);
  for (const keep of ['', '0', '1001', '1.5']) assert.ok(ruleProblems({ every: '1h', keep, at: '' }).keep);
  assert.ok(sameRule({ every_seconds: 60, keep: 1 }, { every_seconds: 60, keep: 1 }));
  assert.ok(!sameRule({ every_seconds: 60, keep: 1 }, { every_seconds: 60, keep: 2 }));
  assert.ok(!sameRule({ every_seconds: 60, keep: 1 }, { every_seconds: 120, keep: 1 }));
  assert.deepEqual(ruleRequest({ every: '7d', keep: '4', at: '03:30' }), { every_seconds: 604_800, keep: 4, at_minutes: 210 });
  assert.deepEqual(ruleRequest({ every: '1d', keep: '4', at: '' }), { every_seconds: 86_400, keep: 4 });
  assert.ok(!sameRule({ every_seconds: 86_400, keep: 1 }, { every_seconds: 86_400, keep: 1, at_minutes: 0 }));
  assert.deepEqual([0, 210, 1439].map(timeOfDay), ['00:00', '03:30', '23:59']);
  assert.equal(pathProblem('/projects'), undefined);
  assert.ok(pathProblem('projects'));
});
