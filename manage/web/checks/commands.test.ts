// Every command that the console shows is one that the command line takes: it gets past the parser, to a daemon that is not there.
import assert from 'node:assert/strict';
import { spawnSync, type SpawnSyncReturns } from 'node:child_process';
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
const SAME: Record<string, string> = {
  'space journal': 'set',
  'space limit': 'set',
  'volume aclSet': 'acl set',
  'volume integritySet': 'integrity set',
  'volume journalSet': 'journal set',
  'volume journalRead': 'journal read',
  'volume journalRemove': 'journal remove',
  'volume quotaSet': 'quota set',
  'volume quotaRemove': 'quota remove',
  'snapshot scheduleSet': 'schedule set',
  'snapshot scheduleRemove': 'schedule remove',
  'notify addChannel': 'channel add',
  'notify setChannel': 'channel set',
  'notify removeChannel': 'channel remove',
  'notify addRule': 'rule add',
  'notify setRule': 'rule set',
  'notify removeRule': 'rule remove',
};

const { account, chain, disk, job, nbd, notify, pool, settings, snapshot, space, token, volume } = commands;
const GIB = 1024 ** 3;
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
  chain(pool.create('tank', ['/dev/sda', "/dev/disk/by-id/it's"], true), disk.set('/dev/sda', { usage: 'hot-spare' })),
  space.create({ name: 'tank/vm', layout: 'mirror', copies: 3, size_bytes: GIB, thin: true, enclosure_aware: true }),
  space.create({
    name: 'tank/vm',
    layout: 'parity',
    parity: 2,
    columns: 6,
    interleave_bytes: 65_536,
    integrity: 'none',
    journal_bytes: GIB,
    size_bytes: 3 * GIB,
  }),
  volume.create({
    name: 'tank/files',
    space: { name: 'tank/files', layout: 'parity', parity: 2, columns: 6, integrity: 'none', size_bytes: GIB, thin: true },
    case_sensitive: true,
  }),
  volume.create({ name: 'tank/files', on: 'tank/vm' }),
  volume.mount('tank/files', "/srv/kim's files", true),
  volume.unmount('tank/files', true),
  volume.grow('tank/files', 3 * GIB),
  volume.shrink('tank/files', 2 * GIB, pace),
  volume.quotaSet('tank/files', { path: "/kim's files", hard_bytes: 3 * GIB, soft_bytes: GIB, hard_files: 50, soft_files: 40 }),
  volume.quotaSet('tank/files', { user: 'kim', hard_bytes: GIB }),
  volume.quotaSet('tank/files', { group: '100', hard_files: 9 }),
  volume.quotaRemove('tank/files', 'tree', '/projects'),
  volume.quotaRemove('tank/files', 'user', 'kim'),
  volume.aclSet('tank/files', "/kim's files", 'D:(A;OICI;FA;;;WD)', true),
  volume.integritySet('tank/files', "/kim's files", 'strict', true, pace),
  volume.integritySet('tank/files', '/', 'pass-through', false),
  volume.scrub('tank/files', pace),
  volume.gather('tank/files', pace),
  volume.journalSet('tank/files', 1024 ** 2),
  volume.journalSet('tank/files', null),
  volume.journalRead('tank/files'),
  volume.journalRemove('tank/files'),
  volume.scan('tank/files', pace),
  volume.spotfix('tank/files', pace, true, true),
  volume.trim('tank/files', pace),
  volume.salvage('tank/files', "/srv/kim's rescue", pace, true),
  volume.destroy('tank/files'),
  snapshot.create('tank/files', "before kim's visit"),
  snapshot.diff('tank/files', 'monday'),
  snapshot.restore('tank/files', 'monday', { path: "/kim's files", keep: false, ...pace }),
  snapshot.restore('tank/files', 'monday', { path: '/a', to: '/b', keep: true }),
  snapshot.destroy('tank/files', 'monday'),
  snapshot.scheduleSet('tank/files', { every_seconds: 5400, keep: 24 }),
  snapshot.scheduleRemove('tank/files', 86400),
  nbd.export({ space: 'tank/vm', name: 'images', read_only: true }),
  nbd.set('images', { max_iops: 2000, burst_iops: 500, max_bytes_per_second: 0 }),
  nbd.unexport('images'),
  job.pause(1),
  job.resume(1),
  job.cancel(1),
  job.set(1, 'low', 50 * 1024 ** 2),
  job.set(1, 'high', 0),
  account.create('kim', 'operator'),
  account.set('kim', { role: 'viewer', enabled: false }),
  account.set('kim', { enabled: true }),
  account.delete('kim'),
  token.create('backup', 'viewer', ['disks', 'jobs'], '90'),
  token.delete('0123'),
  notify.addChannel('ops', {
    mail: {
      server: 'mail.example.com',
      port: 0,
      security: 'tls',
      user: 'nas',
      password: 'x',
      from: 'NAS <a@b.c>',
      to: ['d@e.f', 'g@h.i'],
    },
  }),
  notify.addChannel('hook', { webhook: { url: 'https://x/y', template: 'slack', secret: 'x', token: 'y' } }),
  notify.setChannel('ops', { mail: { server: 'mail.example.com', port: 2525, user: 'nas', password: 'x', ca_certificate: '' } }),
  notify.setChannel('ops', { mail: { server: 'mail.example.com', user: '' } }),
  notify.setChannel('hook', { webhook: { template: 'ntfy', secret: '', token: '' } }),
  notify.removeChannel('ops'),
  notify.addRule('bad', {
    channel: 'ops',
    severity: 'warning',
    objects: ['pool tank', 'disk'],
    digest_seconds: 900,
    quiet: '22:00-07:00',
    errors_pass_quiet: false,
  }),
  notify.setRule('bad', { channel: 'ops', severity: 'error', objects: [], digest_seconds: 0, quiet: '' }),
  notify.setRule('bad', { quiet: '22:00-07:00', errors_pass_quiet: true }),
  notify.removeRule('bad'),
  notify.test('ops'),
  'holdfast event list --follow',
  'holdfast audit',
  'holdfast backup /var/backups/holdfast.backup',
];
const lines = shown.flatMap((command) => command.split(' &&\n'));

test('every command has its sample', () => {
  const groups = { account, disk, job, nbd, notify, pool, settings, snapshot, space, token, volume };
  const wanted = Object.entries(groups).flatMap(([group, actions]) =>
    Object.keys(actions).map((name) => `${group} ${SAME[`${group} ${name}`] ?? name}`),
  );
  const has = (name: string) => lines.some((line) => line === `holdfast ${name}` || line.startsWith(`holdfast ${name} `));
  assert.deepEqual(
    wanted.filter((name) => !has(name)),
    [],
  );
});

test('the command line takes every command that is shown', () => {
  // Without a binary nothing would be compared, and that is no success.
  assert.ok(BINARY, 'HOLDFAST_BIN names no binary; build the daemon and name it');
  for (const command of lines) {
    const line: string = command.replace('holdfast', `'${BINARY}' --socket /nonexistent/holdfast.sock`);
    const ran: SpawnSyncReturns<string> = spawnSync('sh', ['-c', line], {
      encoding: 'utf8',
      input: 'a long password\na long password\n',
    });
    assert.equal(ran.status, 1, `${command}: ${ran.stderr}`);
    assert.match(ran.stderr, /nonexistent/, `${command}: ${ran.stderr}`);
  }
});
