// Every command that the wizards and the pages show is one that the command line takes: it gets past the parser, to a daemon that is
// not there.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import * as commands from '../src/wizards/commands.ts';
import { skip } from './support/scene.ts';
import { BINARY } from './support/server.ts';

const { account, chain, disk, job, nbd, notify, pool, space, token } = commands;
const GIB = 1024 ** 3;

const shown = [
  chain(pool.create('tank', ['/dev/sda', "/dev/disk/by-id/it's"], true), disk.usage('/dev/sda', 'hot-spare')),
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
  nbd.export({ space: 'tank/vm', name: 'images', read_only: true }),
  nbd.set('images', { max_iops: 2000, burst_iops: 500, max_bytes_per_second: 0 }) ?? '',
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

test('the command line takes every command that is shown', { skip }, () => {
  for (const command of shown.flatMap((line) => line.split(' &&\n'))) {
    const line = command.replace('holdfast', `'${BINARY}' --socket /nonexistent/holdfast.sock`);
    const ran = spawnSync('sh', ['-c', line], { encoding: 'utf8', input: 'a long password\na long password\n' });
    assert.equal(ran.status, 1, `${command}: ${ran.stderr}`);
    assert.match(ran.stderr, /nonexistent/, `${command}: ${ran.stderr}`);
  }
});
