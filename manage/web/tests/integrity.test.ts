// What files of a volume keep to prove their data: chosen, scrubbed, and what is lost shown until it is whole again.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { closeSync, fsyncSync, mkdirSync, openSync, readSync, statSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import type { Page } from 'playwright-core';
import { check } from './support/axe.ts';
import { choose, PHONE, settled, visit } from './support/browser.ts';
import { mount, mountable } from './support/mounts.ts';
import { scene, skip as without } from './support/scene.ts';
import { sizeOf } from './support/server.ts';

const DISKS = 2;
const BLOCK = 4096;
const BLOCKS = 64;
/** The block that is spoiled. */
const SPOILED = 9;
/** Time in which the server looks at damage more than once. */
const LOOKS_MS = 3000;
const PATH = '/volumes/tank/files';
const skip = without || (mountable() ? false : 'mounting needs root and /dev/fuse');

let directory = '';
const on = scene(DISKS, 0, async (server) => {
  directory = join(server.folder, 'mnt');
  mkdirSync(directory);
});
// Whatever failed: a mount that stays would keep the daemon's folder.
after(() => {
  if (directory !== '') spawnSync('umount', ['-l', directory]);
});

const dialog = (name: string) => on.page.getByRole('dialog', { name });
const panel = (page: Page) => page.getByRole('region', { name: 'Integrity of files' });
const lost = (page: Page) => panel(page).getByRole('grid', { name: 'Lost blocks' });
const modeOf = async (path: string) => (await on.server.get<{ mode: string }>(`${PATH}/integrity?path=${path}`)).mode;

/** A block that is like no other. */
const block = (number: number) => Buffer.alloc(BLOCK, `block ${String(number).padStart(8, '0')} of a strict file;`);

/** Writes over a block on every disk that has it; answers how many have. */
function spoil(number: number): number {
  const wanted = block(number);
  const chunk = Buffer.alloc(sizeOf('4MiB'));
  let copies = 0;
  for (let disk = 1; disk <= DISKS; disk += 1) {
    const file = openSync(on.server.disk(disk), 'r+');
    for (let start = 0, length = 1; length > 0; start += length) {
      length = readSync(file, chunk, 0, chunk.length, start);
      for (let at = 0; at < length; at += BLOCK) {
        if (!chunk.subarray(at, at + BLOCK).equals(wanted)) continue;
        writeSync(file, Buffer.alloc(100, 0x55), 0, 100, start + at + 7);
        copies += 1;
      }
    }
    fsyncSync(file);
    closeSync(file);
  }
  return copies;
}

async function scrub(page: Page) {
  await choose(page, 'Care', 'Scrub files…');
  const asked = dialog('Scrub files of tank/files');
  await asked.getByText('holdfast volume scrub tank/files', { exact: true }).waitFor();
  await asked.getByRole('button', { name: 'Scrub', exact: true }).click();
  await asked.waitFor({ state: 'detached' });
}

test('the wizard makes a volume on a space without checksums, if that is asked for', { skip: without }, async () => {
  const { page, server } = on;
  await visit(page, '/volumes', 'Volumes');
  await page.getByRole('button', { name: 'Create a volume…' }).click();
  const wizard = dialog('Create a volume');
  await wizard.getByLabel('Name', { exact: true }).fill('files');
  await wizard.getByLabel('Size', { exact: true }).fill('96MiB');
  await wizard.getByText('holdfast volume create tank/files --layout mirror --copies 2 --size 96MiB', { exact: true }).waitFor();
  await wizard.getByLabel('Checksums: detect and repair').uncheck();
  const command = 'holdfast volume create tank/files --layout mirror --copies 2 --integrity none --size 96MiB';
  await wizard.getByText(command, { exact: true }).waitFor();
  await wizard.getByText('Fits', { exact: true }).waitFor();
  await wizard.getByRole('button', { name: 'Create volume' }).click();
  await page.getByRole('heading', { level: 1, name: 'tank/files' }).waitFor();
  assert.equal((await server.get<{ integrity: string }>('/spaces/tank/files')).integrity, 'none');
  await panel(page).getByText('None is in the list of jobs.').waitFor();
});

test('a directory hands integrity on to new files, and by a job to those that are there', { skip }, async () => {
  const { page, server } = on;
  await mount(server, 'tank/files', directory);
  mkdirSync(join(directory, 'safe'));
  writeFileSync(join(directory, 'safe/before'), block(1000));
  await visit(page, PATH, 'tank/files');
  await choose(page, 'Care', 'Integrity…');
  const set = dialog('Integrity on tank/files');
  const now = set.getByRole('region', { name: 'As it is' });
  await now.getByText('Pass-through', { exact: true }).waitFor();
  await set.getByLabel('File or directory').fill('safe');
  await set.getByRole('button', { name: 'Set integrity' }).click();
  await set.locator('[name=path][aria-invalid=true]').waitFor();
  await set.getByLabel('File or directory').fill('/nowhere');
  await now.getByText(/does not exist/).waitFor();
  await set.getByRole('button', { name: 'Set integrity' }).click();
  await set.locator('[name=path][aria-invalid=true]').waitFor();

  await set.getByLabel('File or directory').fill('/safe');
  await now.getByText('New files and directories in it begin with').waitFor();
  await set.getByLabel('Integrity', { exact: true }).selectOption('Strict');
  await set.getByText('holdfast volume integrity set tank/files/safe strict', { exact: true }).waitFor();
  await set.getByRole('button', { name: 'Set integrity' }).click();
  await set.waitFor({ state: 'detached' });
  writeFileSync(join(directory, 'safe/data'), Buffer.concat(Array.from({ length: BLOCKS }, (_, number) => block(number))));
  assert.deepEqual(
    [await modeOf('/safe'), await modeOf('/safe/data'), await modeOf('/safe/before'), await modeOf('/')],
    ['strict', 'strict', 'pass-through', 'pass-through'],
  );

  await choose(page, 'Care', 'Integrity…');
  await set.getByLabel('File or directory').fill('/safe');
  await now.getByText('Strict', { exact: true }).waitFor();
  await set.getByLabel('Also for all that is below, as a job').check();
  await set.getByLabel('Maximum bytes per second').fill('fast');
  await set.getByRole('button', { name: 'Set integrity' }).click();
  await set.locator('[name=cap][aria-invalid=true]').waitFor();
  await set.getByLabel('Maximum bytes per second').fill('');
  await set.getByLabel('Priority').selectOption('low');
  await set.getByText('holdfast volume integrity set tank/files/safe strict --below --priority low', { exact: true }).waitFor();
  await set.getByRole('button', { name: 'Set integrity' }).click();
  await set.waitFor({ state: 'detached' });
  await server.until(`${PATH}/integrity?path=/safe/before`, (file: { mode: string }) => file.mode === 'strict');
});

test('its files are scrubbed at a pace, and the page shows how far that is and what came of it', { skip }, async () => {
  const { page, server } = on;
  await visit(page, PATH, 'tank/files');
  await choose(page, 'Care', 'Scrub files…');
  const asked = dialog('Scrub files of tank/files');
  await asked.getByLabel('Maximum bytes per second').fill('16KiB');
  await asked.getByText('holdfast volume scrub tank/files --cap 16KiB', { exact: true }).waitFor();
  await asked.getByRole('button', { name: 'Scrub', exact: true }).click();
  await asked.waitFor({ state: 'detached' });
  await page.getByText(/^Scrub files of tank\/files started as job/).waitFor();
  await page.getByRole('progressbar', { name: 'Scrub files of tank/files' }).waitFor();
  const [job] = (await server.get<{ id: number; kind: string }[]>('/jobs')).filter((one) => one.kind === 'scrub-files');
  await server.ask('PATCH', `/jobs/${job?.id}`, { cap_bytes_per_second: 0 });
  await panel(page)
    .getByText(/all of it is right/)
    .waitFor();
  await panel(page).getByText('Done', { exact: true }).waitFor();
  await page.getByRole('progressbar', { name: 'Scrub files of tank/files' }).waitFor({ state: 'detached' });
  assert.equal(await lost(page).count(), 0, 'nothing is lost');
});

test('a block that is lost is listed, with the file and what to do, to everybody', { skip }, async () => {
  const { page, server } = on;
  const data = join(directory, 'safe/data');
  const { ino } = statSync(data);
  await mount(server, 'tank/files');
  assert.equal(spoil(SPOILED), DISKS);
  await mount(server, 'tank/files', directory);
  await visit(page, PATH, 'tank/files');
  await scrub(page);
  const row = lost(page).getByRole('row', { name: new RegExp(String(ino)) });
  await row.getByText(String(SPOILED * BLOCK), { exact: true }).waitFor();
  await row.getByText('The file', { exact: true }).waitFor();
  await panel(page)
    .getByText(/1 block is right in no copy/)
    .waitFor();
  await panel(page).getByText(`find ${directory} -xdev -inum ${ino}`, { exact: true }).waitFor();
  assert.equal(spawnSync('find', [directory, '-xdev', '-inum', String(ino)], { encoding: 'utf8' }).stdout.trim(), data);
  await page.getByText('Unhealthy', { exact: true }).first().waitFor();

  const viewer = await on.as('viewer', { viewport: PHONE });
  await visit(viewer, PATH, 'tank/files');
  await settled(viewer);
  await lost(viewer)
    .getByRole('row', { name: new RegExp(String(ino)) })
    .waitFor();
  await check(viewer, 'a volume with damage');
  await viewer.getByRole('button', { name: 'Care', exact: true }).click();
  for (const name of ['Scrub files…', 'Integrity…']) {
    const item = viewer.getByRole('menuitem', { name });
    await item.getByText('Needs the role operator').waitFor();
    assert.equal(await item.getAttribute('aria-disabled'), 'true', name);
  }
  await viewer.context().close();
});

test('what is written anew is lost no more once a scrub has seen it', { skip }, async () => {
  const { page, server } = on;
  await visit(page, PATH, 'tank/files');
  await lost(page).waitFor();
  const file = openSync(join(directory, 'safe/data'), 'r+');
  writeSync(file, block(SPOILED), 0, BLOCK, SPOILED * BLOCK);
  fsyncSync(file);
  closeSync(file);
  await scrub(page);
  await lost(page).waitFor({ state: 'detached' });
  await panel(page)
    .getByText(/all of it is right/)
    .waitFor();
  // The server looks every second what reads found: what is whole again does not come back by that.
  await new Promise((done) => setTimeout(done, LOOKS_MS));
  assert.deepEqual(await server.get(`${PATH}/damage`), []);
  assert.equal((await server.get<{ health: string }>(PATH)).health, 'healthy');
  assert.equal(await lost(page).count(), 0);
});

test('nothing went wrong in the pages', { skip: without }, () => assert.deepEqual(on.troubles, []));
