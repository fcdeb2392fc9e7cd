// Room: too few disks to rebuild on are noted before a space is made, a disk goes by force only, and a full pool is health.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { visit } from './support/browser.ts';
import { scene, skip } from './support/scene.ts';
import { sizeOf } from './support/server.ts';

const on = scene(5, 1);

test('the wizard notes that no disk is left to rebuild on', { skip }, async () => {
  const { page } = on;
  await visit(page, '/spaces', 'Spaces');
  await page.getByRole('button', { name: 'Create a space…' }).first().click();
  const wizard = page.getByRole('dialog', { name: 'Create a space' });
  const notes = wizard.getByRole('region', { name: 'Preview' }).getByRole('listitem');
  await wizard.getByLabel('Name', { exact: true }).fill('vm');
  await wizard.getByLabel('Size', { exact: true }).fill('64MiB');
  await wizard.getByRole('radio', { name: /Two-way mirror/ }).check({ force: true });
  await wizard.getByLabel('Columns', { exact: true }).fill('2');
  await notes.getByText(/disks/).first().waitFor();
  await wizard.getByRole('button', { name: 'Create space' }).click();
  await page.getByRole('heading', { level: 1, name: 'tank/vm' }).waitFor();
});

test('a disk that new rows need goes without a new one only where that is confirmed', { skip }, async () => {
  const { page, server } = on;
  const disks = await server.get<{ id: string; path: string; pool: string | null }[]>('/disks');
  const disk = disks.find((one) => one.path === server.disk(4));
  await visit(page, `/disks/${disk?.id}`, server.disk(4));
  await page.getByRole('button', { name: 'Replace…' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('combobox').first().selectOption('');
  const meant = dialog.getByLabel(/anyway: tank\/vm\s+gets no new rows until a disk is added/);
  await meant.waitFor();
  await dialog.getByRole('button', { name: 'Replace', exact: true }).click();
  await dialog.locator('[name=force][aria-invalid=true]').waitFor();
  assert.deepEqual(await server.get('/jobs'), [], 'nothing was sent');
  await dialog.getByRole('button', { name: 'Close' }).click();
});

test('a full pool is said on the overview', { skip }, async () => {
  const { page, server } = on;
  const thin = { name: 'tank/thin', layout: 'mirror', copies: 2, columns: 1, size_bytes: sizeOf('64MiB'), thin: true };
  await server.post('/spaces', thin);
  for (let size = sizeOf('512MiB'), number = 0; size >= sizeOf('1MiB');) {
    const ballast = { name: `tank/ballast${number}`, layout: 'simple', columns: 1, size_bytes: size };
    const { status } = await server.ask('POST', '/spaces', ballast);
    if (status < 300) number += 1;
    else size /= 2;
  }
  await visit(page, '/', 'Overview');
  const health = page.getByRole('region', { name: 'Health', exact: true });
  const card = health.getByRole('article').filter({ hasText: 'finds no room to grow into' });
  await card.getByRole('link', { name: 'tank/thin' }).waitFor();
  await card.getByText(/Next:/).waitFor();
  assert.equal(await page.getByText(/^All \d+ objects are healthy/).count(), 0);
});

test('nothing went wrong in the pages', { skip }, () => assert.deepEqual(on.troubles, []));
