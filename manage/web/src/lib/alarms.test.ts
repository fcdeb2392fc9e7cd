import assert from 'node:assert/strict';
import { test } from 'node:test';
import { alarms, MOST_ALARMS } from './alarms.ts';
import type { Cause, Event, ObjectRef } from './api/types';

/** The object that a test calls `KIND NAME`, with its name as its id. */
const named = (text: string): ObjectRef => {
  const [kind = '', name = ''] = text.split(' ');
  return { kind: kind as ObjectRef['kind'], id: name, name };
};

let id = 0;
const event = (object: string, severity: Event['severity'] = 'warning'): Event => ({
  id: (id += 1),
  time: '2026-01-01T00:00:00Z',
  severity,
  object: named(object),
  cause: 'went wrong',
  next_action: '',
});
const cause = (disk: string, spaces: string[]): Cause => ({
  id: `disk-lost ${disk}`,
  kind: 'disk-lost',
  health: 'unhealthy',
  object: named(`disk ${disk}`),
  cause: `disk ${disk} is missing`,
  next_action: '',
  disks: [
    {
      id: disk,
      pool: 'tank',
      path: `/dev/${disk}`,
      serial: disk,
      enclosure: null,
      slot: null,
      size_bytes: 1,
      used_bytes: 1,
      usage: 'auto',
      state: 'missing',
    },
  ],
  affects: spaces.map((object) => ({ object: named(`space ${object}`), health: 'warning', effect: '' })),
  repair_at: null,
  repair_in_seconds: null,
  no_repair: null,
  resync_slabs: 0,
  resync_percent: null,
  jobs: [],
});

test('all events of a cause are one message, and are not told again soon', () => {
  const told = new Map<string, number>();
  const elsewhere = { ...event('disk A'), object: { ...named('disk A'), name: '/dev/A' } };
  const lost = [event('disk A'), event('pool tank'), event('space tank/x'), event('space tank/y'), elsewhere];
  const causes = [cause('A', ['tank/x', 'tank/y'])];
  const said = alarms(lost, causes, told, 1000);
  assert.deepEqual(
    said.map(({ about, tone, text }) => [about, tone, text]),
    [['disk-lost A', 'error', 'disk A is missing']],
  );
  assert.deepEqual(alarms(lost, causes, told, 30_000), []);
  assert.equal(alarms(lost, causes, told, 62_000).length, 1);
});

test('what has no cause is told by its object; information is not', () => {
  const said = alarms([event('job 3', 'error'), event('job 3', 'error'), event('job 4', 'info')], [], new Map(), 0);
  assert.deepEqual(
    said.map(({ tone, text }) => [tone, text]),
    [['error', 'job 3: went wrong']],
  );
});

test('a flood is a few messages', () => {
  const flood = Array.from({ length: 50 }, (_, at) => event(`job ${at}`));
  const said = alarms(flood, [], new Map(), 0);
  assert.equal(said.length, MOST_ALARMS);
  assert.equal(said.at(-1)?.text, `${50 - MOST_ALARMS + 1} more things went wrong.`);
});
