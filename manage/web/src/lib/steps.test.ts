import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openSteps, type Known } from './steps.ts';

const protection = (rebuildable_losses: number) => ({ rebuildable_losses }) as Known['spaces'][number]['protection'];
const fresh: Known = {
  channels: [],
  rules: [],
  deliveries: [],
  audit: [],
  schedules: [{ volume: 'tank/files', rules: [] }],
  disks: [{ usage: 'auto' }],
  spaces: [{ layout: 'mirror', protection: protection(0) }],
  scrub: { seconds: 604_800, origin: 'default' },
};
const rule = { every_seconds: 3600, at_minutes: null, keep: 24, snapshots: 1, next_at: '' };
const done: Known = {
  channels: [{}],
  rules: [{ enabled: true }],
  deliveries: [],
  audit: [
    { operation: 'backup', status: 200 },
    { operation: 'notify_channel_test', status: 200 },
  ],
  schedules: [{ volume: 'tank/files', rules: [rule] }],
  disks: [{ usage: 'hot-spare' }],
  spaces: fresh.spaces,
  scrub: { seconds: 604_800, origin: 'set' },
};
const ids = (known: Known) => openSteps(known, 'tank/files').map((step) => step.id);

test('a new server has all of them to do, and one that is set up has none', () => {
  assert.deepEqual(ids(fresh), ['mail', 'snapshots', 'spare', 'backup', 'scrub']);
  assert.deepEqual(ids(done), []);
});

test('each is done by itself', () => {
  assert.deepEqual(ids({ ...done, rules: [{ enabled: false }] }), ['mail']);
  assert.deepEqual(ids({ ...done, audit: done.audit.slice(0, 1) }), ['mail']);
  assert.deepEqual(ids({ ...done, audit: done.audit.slice(0, 1), deliveries: [{ state: 'delivered' }] }), []);
  assert.deepEqual(ids({ ...done, channels: [{ trouble: { cause: '', next_action: '' } }] }), ['mail']);
  assert.deepEqual(ids({ ...done, audit: [{ operation: 'backup', status: 403 }, done.audit[1]!] }), ['backup']);
  assert.deepEqual(ids({ ...done, disks: [], spaces: [{ layout: 'simple', protection: protection(0) }] }), []);
  assert.deepEqual(ids({ ...done, disks: [], spaces: [{ layout: 'parity', protection: protection(1) }] }), []);
  assert.deepEqual(ids({ ...done, schedules: [] }), []);
});
