// What is lost for good is said before, and given up by name; what cannot be read is not called served; what is brought in step shows how far it is.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { visit } from './support/browser.ts';
import { fill, mirrored, scene, skip } from './support/scene.ts';
import { sizeOf } from './support/server.ts';

const PULLED = 3;

const on = scene(6, 0, async (server) => {
  await mirrored(server, 'vm', sizeOf('64MiB'));
  for (const name of ['scratch', 'served']) {
    await server.post('/spaces', { name: `tank/${name}`, layout: 'simple', columns: 6, size_bytes: sizeOf('64MiB') });
  }
  await server.post('/exports', { space: 'tank/served' });
  fill(server, sizeOf('64MiB'), 'vm', 'served');
});

test('an export whose reads fail is not called served', { skip }, async () => {
  const { page, server } = on;
  await visit(page, '/exports', 'Exports');
  const row = page.getByRole('grid', { name: 'Exports' }).getByRole('row', { name: /^served / });
  await row.getByText('Served', { exact: true }).waitFor();
  server.pull(PULLED);
  await row.getByText('Reads fail').waitFor();
  await row.getByRole('link').click();
  await page.getByRole('region', { name: 'served' }).getByText('Next:').first().waitFor();
});

test('a replacement names what is lost, and goes ahead only where that is given up by name', { skip }, async () => {
  const { page, server } = on;
  await server.ask('DELETE', '/exports/served');
  await visit(page, '/', 'Overview');
  const card = page.getByRole('region', { name: 'Health', exact: true }).getByRole('article');
  await card
    .getByText(/cannot be read/)
    .first()
    .waitFor();
  await card.getByRole('button', { name: 'Replace…' }).click();
  const dialog = page.getByRole('dialog');
  const lost = dialog.getByRole('region', { name: 'What is lost' });
  await lost.getByText(/lost\s+for\s+good/).waitFor();
  assert.equal(await dialog.getByText('The pool stays in use').count(), 0);
  const replace = dialog.getByRole('button', { name: 'Replace and give up' });
  await replace.click();
  await dialog.locator('[name=give_up][aria-invalid=true]').waitFor();
  await lost.getByLabel(/^Type tank\/scratch/).fill('tank/scratch');
  await replace.click();
  await dialog.locator('[name=give_up][aria-invalid=true]').waitFor();
  await lost.getByLabel(/^Type tank\/served/).fill('tank/served');
  await dialog.getByText('--give-up tank/scratch', { exact: false }).waitFor();
  await replace.click();
  await dialog.waitFor({ state: 'detached' });
  await server.until('/spaces', (spaces: { name: string }[]) => spaces.length === 1 && spaces[0]?.name === 'tank/vm');
  await page.getByText(/^All \d+ objects are healthy/).waitFor();
});

test('a replacement that loses nothing says that the pool stays in use', { skip }, async () => {
  const { page, server } = on;
  const [disk] = (await server.get<{ id: string; pool: string | null }[]>('/disks')).filter((one) => one.pool === 'tank');
  await page.goto(`/disks/${disk?.id}`);
  await page.getByRole('button', { name: 'Replace…' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText('The pool stays in use, but may be slower meanwhile.').waitFor();
  assert.equal(await dialog.getByRole('region', { name: 'What is lost' }).count(), 0);
});

test('nothing went wrong in the pages', { skip }, () => assert.deepEqual(on.troubles, []));
