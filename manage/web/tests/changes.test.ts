// The change journal of a volume by the console: switched on, read from its end back, given another size, and switched off.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import type { Page } from 'playwright-core';
import { check } from './support/axe.ts';
import { PHONE, settled, visit } from './support/browser.ts';
import { mount, mountable } from './support/mounts.ts';
import { scene, skip as without } from './support/scene.ts';
import { BINARY, run, sizeOf } from './support/server.ts';

const PATH = '/volumes/tank/files';
/** Files whose records are more than the console keeps at once. */
const MANY = 7000;
const skip = without || (mountable() ? false : 'mounting needs root and /dev/fuse');

let directory = '';
const on = scene(2, 0, async (server) => {
  const space = { name: 'tank/files', layout: 'mirror', copies: 2, size_bytes: sizeOf('96MiB') };
  await server.post('/volumes', { name: 'tank/files', space });
  directory = join(server.folder, 'mnt');
  mkdirSync(directory);
  if (!skip) await mount(server, 'tank/files', directory);
});
// Whatever failed: a mount that stays would keep the daemon's folder.
after(() => {
  if (directory !== '') spawnSync('umount', ['-l', directory]);
});

const dialog = (name: string) => on.page.getByRole('dialog', { name });
const panel = (page: Page) => page.getByRole('region', { name: 'Change journal' });
const sizeOfJournal = async () => (await on.server.get<{ max_bytes: number }>(`${PATH}/journal`)).max_bytes;

test('it is off at first, and switched on with a size that a volume can have', { skip: without }, async () => {
  const { page, server } = on;
  await visit(page, PATH, 'tank/files');
  await panel(page).getByText(/^Off:/).waitFor();
  await panel(page).getByRole('button', { name: 'Switch on…' }).click();
  const set = dialog('Switch on the change journal of tank/files');
  assert.equal(await set.getByLabel('Size', { exact: true }).inputValue(), '12MiB');
  for (const wrong of ['63KiB', '13MiB', 'much']) {
    await set.getByLabel('Size', { exact: true }).fill(wrong);
    await set.getByRole('button', { name: 'Switch on' }).click();
    await set.locator('[name=size][aria-invalid=true]').waitFor();
    await set.getByText(/Enter a size from 64KiB to 12MiB/).waitFor();
  }
  assert.equal((await server.ask('GET', `${PATH}/journal`)).status, 404);
  await set.getByLabel('Size', { exact: true }).fill('1MiB');
  await set.getByText('holdfast volume journal set tank/files --size 1MiB', { exact: true }).waitFor();
  await set.getByRole('button', { name: 'Switch on' }).click();
  await set.waitFor({ state: 'detached' });
  await panel(page).getByRole('definition').getByText('1 MiB', { exact: true }).waitFor();
  assert.equal(await sizeOfJournal(), sizeOf('1MiB'));
});

test('its id is shown with all digits', { skip: without }, async () => {
  const { page, server } = on;
  const told = run(BINARY ?? '', '--socket', server.socket, '--json', 'volume', 'journal', 'show', 'tank/files');
  const id = /"id": "(\d+)"/.exec(told)?.[1] ?? '';
  assert.ok(!Number.isSafeInteger(Number(id)), `${id} has no more digits than a number holds`);
  await visit(page, PATH, 'tank/files');
  await panel(page).getByRole('definition').getByText(id, { exact: true }).waitFor();
});

test('it gets another size', { skip: without }, async () => {
  const { page } = on;
  await visit(page, PATH, 'tank/files');
  await panel(page).getByRole('button', { name: 'Change the size…' }).click();
  const set = dialog('Change journal of tank/files');
  assert.equal(await set.getByLabel('Size', { exact: true }).inputValue(), '1MiB');
  await set.getByLabel('Size', { exact: true }).fill('8MiB');
  await set.getByRole('button', { name: 'Set', exact: true }).click();
  await set.waitFor({ state: 'detached' });
  await panel(page).getByRole('definition').getByText('8 MiB', { exact: true }).waitFor();
  assert.equal(await sizeOfJournal(), sizeOf('8MiB'));
});

test('its newest records are shown with their reasons, and older ones page by page', { skip }, async () => {
  const { page } = on;
  mkdirSync(join(directory, 'many'));
  for (let number = 0; number < MANY; number += 1) writeFileSync(join(directory, `many/${number}`), 'x');
  await visit(page, PATH, 'tank/files');
  await panel(page).getByRole('button', { name: 'Show changes…' }).click();
  const changes = dialog('Changes of tank/files');
  const grid = changes.getByRole('grid', { name: 'Changes' });
  await changes.getByText('holdfast volume journal read tank/files', { exact: true }).waitFor();
  /** The newest, until they are sorted. */
  const top = grid.getByRole('row').nth(1);
  await top.getByText(`/many/${MANY - 1}`, { exact: true }).waitFor();
  await top.getByText('closed', { exact: true }).waitFor();
  await changes.getByText(/there are older ones/).waitFor();
  await check(page, 'changes of a volume');

  writeFileSync(join(directory, 'note'), 'kept');
  rmSync(join(directory, 'note'));
  await changes.getByRole('button', { name: 'Read newer' }).click();
  await grid
    .getByRole('row', { name: /^\/note / })
    .getByText(/removed/)
    .waitFor();

  const older = changes.getByRole('button', { name: 'Read older' });
  for (let pages = 0; await older.isEnabled(); pages += 1) {
    assert.ok(pages < 5, 'there is no end of older records');
    await older.click();
    await changes.getByText(/^Reading/).waitFor({ state: 'detached' });
  }
  await grid.getByRole('button', { name: 'Position' }).click();
  await top.getByText('/many/', { exact: true }).waitFor();
  await top.getByText('created, closed', { exact: true }).waitFor();
  await changes.getByRole('button', { name: 'Close' }).last().click();
  await changes.waitFor({ state: 'detached' });
});

test('a viewer sees how it is, and an operator may do all but switch it off', { skip: without }, async () => {
  const names = ['Show changes…', 'Change the size…', 'Switch off…'];
  for (const [role, offered] of [
    ['viewer', []],
    ['operator', ['Show changes…', 'Change the size…']],
  ] as const) {
    const page = await on.as(role, { viewport: PHONE });
    await visit(page, PATH, 'tank/files');
    await settled(page);
    await panel(page).getByRole('definition').getByText('8 MiB', { exact: true }).waitFor();
    const enabled = [];
    for (const name of names) if (await panel(page).getByRole('button', { name }).isEnabled()) enabled.push(name);
    assert.deepEqual(enabled, offered, role);
    await page.context().close();
  }
});

test('it is switched off after it was said what followers lose', { skip: without }, async () => {
  const { page, server } = on;
  await visit(page, PATH, 'tank/files');
  await panel(page).getByRole('button', { name: 'Switch off…' }).click();
  const remove = dialog('Switch off the change journal of tank/files');
  await remove.getByText(/have to look at all files once/).waitFor();
  await remove.getByText('holdfast volume journal remove tank/files --yes', { exact: true }).waitFor();
  await remove.getByRole('button', { name: 'Switch off', exact: true }).click();
  await remove.waitFor({ state: 'detached' });
  await panel(page).getByText(/^Off:/).waitFor();
  assert.equal((await server.ask('GET', `${PATH}/journal`)).status, 404);
});

test('nothing went wrong in the pages', { skip: without }, () => assert.deepEqual(on.troubles, []));
