// What happens while somebody looks: a disk that is pulled, what another browser changes, jobs from their begin to their end.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { visit } from './support/browser.ts';
import { mirrored, scene, skip } from './support/scene.ts';
import { run, sizeOf } from './support/server.ts';

const PULLED = 3;

const on = scene(6, 0, async (server) => {
  await mirrored(server, 'vm', sizeOf('128MiB'));
  await mirrored(server, 'db', sizeOf('128MiB'));
  const data = join(server.folder, 'data');
  writeFileSync(data, randomBytes(sizeOf('128MiB')));
  for (const name of ['vm', 'db']) run('nbdcopy', data, server.nbdUri.replace('NAME', name));
});

test('two browsers see each other’s change', { skip }, async () => {
  const other = await on.as('operator');
  await visit(on.page, '/exports', 'Exports');
  await visit(other, '/exports', 'Exports');
  const listed = on.page.getByRole('grid', { name: 'Exports' });
  await listed.getByRole('link', { name: 'db', exact: true }).waitFor();
  await other.getByRole('link', { name: 'db', exact: true }).click();
  await other.getByRole('button', { name: 'Withdraw' }).click();
  await other.getByRole('dialog').getByRole('button', { name: 'Withdraw' }).click();
  await listed.getByRole('link', { name: 'db', exact: true }).waitFor({ state: 'detached' });
  await on.page.getByRole('button', { name: 'Export a space' }).click();
  // What is asked for makes the dialog grow, and a click meanwhile meets something else.
  await on.page.getByRole('dialog').getByText('holdfast nbd export tank/db').waitFor();
  await on.page.getByRole('dialog').getByRole('button', { name: 'Export', exact: true }).click();
  await other.getByRole('grid', { name: 'Exports' }).getByRole('link', { name: 'db', exact: true }).waitFor();
  await other.context().close();
});

test('who is connected to an export is seen while they are', { skip }, async () => {
  const { page, server } = on;
  await visit(page, '/exports?export=vm', 'Exports');
  const busy = spawn('qemu-io', ['-f', 'raw', '-c', 'read 0 4k', '-c', 'sleep 60000', server.nbdUri.replace('NAME', 'vm')]);
  try {
    const connections = page.getByRole('grid', { name: 'Connections of vm' });
    await connections.getByText('4 KiB').waitFor();
  } finally {
    busy.kill();
  }
  await page.getByText('No client is connected.').waitFor();
  await page.getByRole('button', { name: 'Limits' }).click();
  const dialog = page.getByRole('dialog', { name: 'Limits of vm' });
  await dialog.getByLabel('Maximum IOPS').fill('many');
  await dialog.getByRole('button', { name: 'Set limits' }).click();
  await dialog.locator('[name=max_iops][aria-invalid=true]').waitFor();
  await dialog.getByLabel('Maximum IOPS').fill('2000');
  await dialog.getByRole('button', { name: 'Set limits' }).click();
  await page.getByText('at most 2,000 IOPS').waitFor();
  const [vm] = (await server.get<{ name: string; qos: { max_iops: number } }[]>('/exports')).filter((one) => one.name === 'vm');
  assert.equal(vm?.qos.max_iops, 2000);
});

test('a conversion is started, slowed down, paused and cancelled', { skip }, async () => {
  const { page } = on;
  await visit(page, '/spaces/tank/db', 'tank/db');
  await page.getByRole('button', { name: /^Convert/ }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Layout').selectOption({ label: 'Single parity' });
  await dialog.getByLabel('Maximum bytes per second').fill('1MiB');
  await dialog.getByRole('button', { name: 'Convert', exact: true }).click();
  await dialog.waitFor({ state: 'detached' });
  await visit(page, '/jobs', 'Jobs');
  const card = page.getByRole('article', { name: 'Convert of tank/db' });
  await card.getByText('Running').waitFor();
  await card.getByLabel('Maximum bytes per second').fill('2MiB');
  await card.getByRole('button', { name: 'Set cap' }).click();
  await card.getByLabel('Priority').selectOption('low');
  await card.getByText('holdfast job set', { exact: false }).waitFor({ state: 'attached' });
  await card.getByRole('button', { name: 'Pause' }).click();
  await card.getByText('Paused').waitFor();
  await card.getByRole('button', { name: 'Resume' }).click();
  await card.getByText('Running').waitFor();
  const [job] = (
    await on.server.get<{ id: number; kind: string; cap_bytes_per_second: number; priority: string }[]>('/jobs')
  ).filter((one) => one.kind === 'convert');
  assert.equal(job?.cap_bytes_per_second, sizeOf('2MiB'));
  assert.equal(job?.priority, 'low');
  await card.getByRole('button', { name: 'Cancel' }).click();
  const sure = page.getByRole('dialog', { name: 'Cancel the conversion of tank/db' });
  await sure.getByText('Protection afterwards').waitFor();
  await sure.getByRole('button', { name: 'Cancel the conversion' }).click();
  await card.waitFor({ state: 'detached' });
  const row = page.getByRole('grid', { name: 'All jobs' }).getByRole('row', { name: new RegExp(`${job?.id} Convert`) });
  await row.getByText('Cancelled').waitFor();
});

test('a disk that is pulled turns up on the open page, with what to do next', { skip }, async (t) => {
  const { page, server } = on;
  await visit(page, '/disks', 'Disks');
  const row = page.getByRole('grid', { name: 'Disks' }).getByRole('row', { name: new RegExp(`disk${PULLED}\\.img`) });
  await row.getByText('Healthy').waitFor();
  const began = performance.now();
  server.pull(PULLED);
  await row.getByText('Missing').waitFor();
  t.diagnostic(`seen after ${Math.round(performance.now() - began)} ms`);
  await row.getByRole('link').click();
  await page.getByText('Next:').first().waitFor();
  await visit(page, '/', 'Overview');
  const health = page.getByRole('region', { name: 'Health', exact: true });
  await health
    .getByText(new RegExp(`disk${PULLED}\\.img`))
    .first()
    .waitFor();
  await health.getByText('Next:').first().waitFor();
  await visit(page, '/events', 'Events');
  await page.getByLabel('Warnings').check();
  await page.getByRole('grid', { name: 'Events' }).getByRole('row').nth(1).getByRole('link').click();
  await page.getByRole('region', { name: 'The event' }).getByText('Next:').waitFor();
});

test('a rebuild is watched to its end', { skip }, async () => {
  const { page, server } = on;
  await visit(page, '/spaces/tank/vm', 'tank/vm');
  await page.getByText('Degraded').first().waitFor();
  await page.getByRole('button', { name: /^Repair/ }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Maximum bytes per second').fill('4MiB');
  await dialog.getByRole('button', { name: 'Repair', exact: true }).click();
  await dialog.waitFor({ state: 'detached' });
  await visit(page, '/jobs', 'Jobs');
  const card = page.getByRole('article', { name: 'Repair of tank/vm' });
  const progress = card.getByRole('progressbar');
  await page.waitForFunction((bar) => Number(bar?.getAttribute('aria-valuenow')) > 0, await progress.elementHandle());
  await card.getByLabel('Maximum bytes per second').fill('');
  await card.getByRole('button', { name: 'Set cap' }).click();
  const row = page.getByRole('grid', { name: 'All jobs' }).getByRole('row', { name: /Repair/ });
  await row.getByText('Done').waitFor();
  await row.getByRole('link').click();
  const ended = page.getByRole('article', { name: 'Repair of tank/vm' });
  assert.equal(await ended.getByRole('progressbar').getAttribute('aria-valuenow'), '100');
  const space = await server.get<{ stale_slabs: number }>('/spaces/tank/vm');
  assert.equal(space.stale_slabs, 0);
});

test('nothing went wrong in the pages', { skip }, () => assert.deepEqual(on.troubles, []));
