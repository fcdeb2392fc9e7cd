// A conversion that was cancelled part of the way: the space says what it survives as it is, and the console resumes it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { visit } from './support/browser.ts';
import { fill, mirrored, scene, skip } from './support/scene.ts';
import { sizeOf } from './support/server.ts';

const SIZE = sizeOf('128MiB');

const on = scene(6, 0, async (server) => {
  await mirrored(server, 'vm', SIZE);
  fill(server, SIZE, 'vm');
});

interface Shown {
  health: string;
  protection: { held_losses: number; converted_percent: number | null };
}

test('the plan says that no disk is left to rebuild on', { skip }, async () => {
  const { page } = on;
  await visit(page, '/spaces/tank/vm', 'tank/vm');
  await page.getByRole('button', { name: /^Convert/ }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Layout').selectOption({ label: 'Three-way mirror' });
  await dialog.getByLabel('Columns').fill('2');
  const notes = dialog.getByRole('region', { name: 'Plan' }).getByRole('list', { name: 'Notes' });
  assert.match((await notes.textContent()) ?? '', /tank\/vm/);
  await dialog.getByRole('button', { name: 'Close' }).click();
});

test('after a cancel the space says what it survives now, and how far it is', { skip }, async () => {
  const { page, server } = on;
  const request = { layout: 'mirror', copies: 3, columns: 1, cap_bytes_per_second: sizeOf('8MiB') };
  const { job } = await server.post<{ job: { id: number } }>('/spaces/tank/vm/convert', request);
  await server.until('/spaces/tank/vm', (space: Shown) => (space.protection.converted_percent ?? 0) > 0);
  await server.post(`/jobs/${job.id}/cancel`, {});
  await server.until(`/jobs/${job.id}`, (one: { state: string }) => one.state === 'cancelled');
  await visit(page, '/spaces/tank/vm', 'tank/vm');
  await page
    .getByText(/\d+ % converted to three-way mirror/)
    .first()
    .waitFor();
  await page.getByText(/1 lost disk now, 2 lost disks when it is whole/).waitFor();
  const { protection, health } = await server.get<Shown>('/spaces/tank/vm');
  assert.equal(protection.held_losses, 1);
  assert.equal(health, 'warning');
  await visit(page, '/', 'Overview');
  await page
    .getByRole('region', { name: 'Health', exact: true })
    .getByText(/% converted to three-way mirror/)
    .first()
    .waitFor();
  assert.equal(await page.getByText(/^All \d+ objects are healthy/).count(), 0);
});

test('the console resumes it without naming the layout again', { skip }, async () => {
  const { page, server } = on;
  await visit(page, '/spaces/tank/vm', 'tank/vm');
  await page.getByRole('button', { name: 'Resume conversion…' }).click();
  const dialog = page.getByRole('dialog', { name: 'Resume the conversion of tank/vm' });
  await dialog.getByText(/^\s*\d+ % of the space has its new layout/).waitFor();
  await dialog.getByText('holdfast space convert tank/vm', { exact: true }).waitFor();
  await dialog.getByText('Data to move, at most').waitFor();
  await dialog.getByRole('button', { name: 'Resume', exact: true }).click();
  await dialog.waitFor({ state: 'detached' });
  await server.until('/spaces/tank/vm', (space: Shown) => space.protection.held_losses === 2);
  await page.getByRole('button', { name: 'Resume conversion…' }).waitFor({ state: 'detached' });
  assert.equal((await server.get<Shown>('/spaces/tank/vm')).health, 'healthy');
});

test('nothing went wrong in the pages', { skip }, () => assert.deepEqual(on.troubles, []));
