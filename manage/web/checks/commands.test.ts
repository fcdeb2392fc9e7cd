// Every command that the console shows is one that the command line takes: it gets past the parser, to a daemon that is not there.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import * as commands from '../src/lib/commands.ts';

const BINARY = process.env['HOLDFAST_BIN'];
const pace = { priority: 'low', cap_bytes_per_second: 50 * 1024 ** 2 } as const;
const shape = {
  copies: 3,
  parity: 2,
  columns: 7,
  interleave_bytes: 65_536,
  integrity: 'none',
  journal_bytes: 1024 ** 3,
  size_bytes: 4096,
  ...pace,
};

/** Actions whose command has another name. */
const SAME: Record<string, string> = { journal: 'set', limit: 'set' };

const { disk, pool, settings, space } = commands;
const shown = [
  disk.set("/dev/it's", { media: 'ssd', enclosure: 'shelf 1', slot: 4, usage: 'hot-spare' }),
  disk.evacuate('sda', pace),
  disk.evacuate('sda', pace, true),
  disk.retire('sda', true, pace),
  disk.retire('sda', false, pace),
  disk.retire('sda', true, pace, true),
  disk.replace('sda', '/dev/sdb', true, pace),
  disk.replace('sda', null, false),
  disk.replace('sda', null, true, pace, ['tank/vm', 'tank/db']),
  disk.remove('sda'),
  disk.remove('sda', true),
  disk.locate('sda', true),
  disk.locate('sda', false),
  disk.wipe('sda'),
  pool.add('tank', ['/dev/sda', '/dev/sdb'], true),
  pool.set('tank', { alert_percents: [70, 85], retire_policy: 'always', grace_seconds: 300 }),
  pool.set('tank', { alert_percents: [] }),
  pool.set('tank', { default_alerts: true, default_grace: true }),
  pool.import('tank', ['/dev/disk/by-id', '/srv'], true),
  pool.import(null, [], false),
  pool.rebalance('tank', pace),
  pool.upgrade('tank', pace),
  pool.export('tank'),
  pool.destroy('tank'),
  space.grow('tank/vm', 3 * 1024 ** 3),
  space.journal('tank/vm', 1024 ** 3),
  space.scrub('tank/vm', pace),
  space.repair('tank/vm', pace),
  space.verify('tank/vm'),
  space.accept('tank/vm'),
  space.destroy('tank/vm'),
  space.convert('tank/vm', { layout: 'parity', thin: true, discard_beyond: true, ...shape }),
  space.convert('tank/vm', { thin: false }),
  settings.set({ host_name: 'nas', scrub_every_seconds: 604_800, repair_after_seconds: 0, alert_percents: [70, 85] }),
  settings.set({ reset: ['host-name', 'scrub-every', 'repair-after', 'alerts'] }),
];

test('every command has its sample', () => {
  const wanted = [disk, pool, space, settings].flatMap((group, at) =>
    Object.keys(group).map((name) => `${['disk', 'pool', 'space', 'settings'][at]} ${SAME[name] ?? name}`),
  );
  assert.deepEqual(
    wanted.filter((name) => !shown.some((command) => command.startsWith(`holdfast ${name} `) || command === `holdfast ${name}`)),
    [],
  );
});

test('the command line takes every command that is shown', { skip: BINARY ? false : 'HOLDFAST_BIN names no binary' }, () => {
  for (const command of shown) {
    const line = command.replace('holdfast', `'${BINARY}' --socket /nonexistent/holdfast.sock`);
    const ran = spawnSync('sh', ['-c', line], { encoding: 'utf8' });
    assert.equal(ran.status, 1, `${command}: ${ran.stderr}`);
    assert.match(ran.stderr, /nonexistent/, `${command}: ${ran.stderr}`);
  }
});
