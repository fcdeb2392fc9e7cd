// Several disks at once: selected in the table, put into an enclosure with slots in natural order, given a usage, retired.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PHONE, settled, visit } from './support/browser.ts';
import { scene, skip } from './support/scene.ts';

const DISKS = 12;
const on = scene(DISKS, 2);

interface Disk {
  path: string;
  usage: string | null;
  enclosure: string | null;
  slot: number | null;
}

const numberOf = (disk: Disk) => Number(/disk(\d+)\.img$/.exec(disk.path)?.[1]);
/** Those of this test; the machine may have disks as well. */
const own = (listed: Disk[]) => listed.filter((disk) => disk.path.startsWith(on.server.folder));
const disks = async () => own(await on.server.get<Disk[]>('/disks')).sort((a, b) => numberOf(a) - numberOf(b));

test('disks are listed as people count', { skip }, async () => {
  await visit(on.page, '/disks', 'Disks');
  await on.page.getByLabel('Filter disks').fill(on.server.folder);
  const grid = on.page.getByRole('grid', { name: 'Disks' });
  await grid.getByRole('link', { name: /disk1\.img/ }).waitFor();
  const names = await grid.locator('tbody a').allTextContents();
  const numbers = names.map((name) => Number(/disk(\d+)\.img/.exec(name)?.[1]));
  assert.deepEqual(
    numbers,
    [...numbers].sort((a, b) => a - b),
  );
});

test('all disks get an enclosure, and slots in natural order', { skip }, async () => {
  const { page } = on;
  await page.getByLabel('Select all disks').check();
  const bar = page.getByRole('region', { name: 'Selected disks' });
  await bar.getByText(`${DISKS} disks selected`).waitFor();
  await bar.getByRole('button', { name: 'Enclosure and slots…' }).click();
  const dialog = page.getByRole('dialog', { name: `Enclosure and slots: ${DISKS} disks` });
  await dialog.getByRole('button', { name: 'Set', exact: true }).click();
  await dialog.getByText('Name the enclosure.').waitFor();
  await dialog.getByLabel('Enclosure').fill('shelf 1');
  const command = await dialog.getByLabel('Command that does the same').textContent();
  assert.match(command ?? '', /disk2\.img --enclosure 'shelf 1' --slot 2 &&\nholdfast disk set \S+disk3\.img/);
  await dialog.getByRole('button', { name: 'Set', exact: true }).click();
  await dialog.waitFor({ state: 'detached' });
  const placed = await disks();
  assert.deepEqual(
    placed.map((disk) => [disk.enclosure, disk.slot]),
    placed.map((disk) => ['shelf 1', numberOf(disk)]),
  );
  await bar.waitFor({ state: 'detached' });
});

test('the enclosure shows each slot and its disk', { skip }, async () => {
  const { page } = on;
  await page.getByLabel('Enclosures').check();
  const shelf = page.getByRole('region', { name: 'Enclosure shelf 1' });
  await shelf.getByText(`Slot ${DISKS}`, { exact: true }).waitFor();
  await shelf.getByRole('link', { name: `disk${DISKS}.img` }).waitFor();
  const tiles = await shelf.getByRole('listitem').allTextContents();
  assert.equal(tiles.length, DISKS);
  assert.match(tiles[9] ?? '', /Slot 10.*disk10\.img/s);
  await page.getByLabel('Table').check();
});

test('a slot that another disk has is refused at the field', { skip }, async () => {
  const { page } = on;
  await page.getByLabel('Filter disks').fill('disk5.img');
  await page.getByRole('checkbox', { name: /^Select .*disk5\.img$/ }).check();
  await page.getByRole('button', { name: 'Enclosure and slots…' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Enclosure').fill('shelf 1');
  await dialog.getByLabel('First slot').fill('7');
  await dialog.getByRole('button', { name: 'Set', exact: true }).click();
  await dialog.getByText('disk7.img is in slot 7 already; choose another first slot.').waitFor();
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'detached' });
  assert.equal(await page.evaluate(() => document.activeElement?.textContent?.trim()), 'Enclosure and slots…');
  await page.getByRole('button', { name: 'Clear selection' }).click();
  await page.getByLabel('Filter disks').fill('');
});

test('what a disk refuses is said of it, and the others are done', { skip }, async () => {
  const { page, server } = on;
  for (const number of [1, 2]) await page.getByRole('checkbox', { name: new RegExp(`disk${number}\\.img$`) }).check();
  await page.getByRole('button', { name: 'Set usage…' }).click();
  const dialog = page.getByRole('dialog', { name: /^Set usage: / });
  await dialog.getByLabel('Usage').selectOption('hot-spare');
  // Somebody else is faster: one of the two is gone from its pool meanwhile.
  await server.post(`/disks/${encodeURIComponent(server.disk(2))}/retire`, { evacuate: false });
  await server.post(`/disks/${encodeURIComponent(server.disk(2))}/remove`, {});
  await dialog.getByRole('button', { name: 'Set usage' }).click();
  await dialog.getByText('1 disk was not changed').waitFor();
  await dialog
    .getByRole('alert')
    .getByText(/disk2\.img/)
    .waitFor();
  assert.equal((await disks())[0]?.usage, 'hot-spare');
  await dialog.getByRole('button', { name: 'Close' }).last().click();
  await dialog.waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Clear selection' }).click();
});

test('several disks are retired', { skip }, async () => {
  const { page } = on;
  for (const number of [3, 4]) await page.getByRole('checkbox', { name: new RegExp(`disk${number}\\.img$`) }).check();
  await page.getByRole('button', { name: 'Retire…' }).click();
  const dialog = page.getByRole('dialog', { name: 'Retire: 2 disks' });
  await dialog.getByRole('button', { name: 'Retire', exact: true }).click();
  await dialog.waitFor({ state: 'detached' });
  assert.deepEqual(
    (await disks()).slice(2, 4).map((disk) => disk.usage),
    ['retired', 'retired'],
  );
});

test('disks without a pool cannot be retired, and the button says why', { skip }, async () => {
  const { page } = on;
  await page.getByRole('checkbox', { name: new RegExp(`disk${DISKS}\\.img$`) }).check();
  const button = page.getByRole('button', { name: /^Retire…/ });
  assert.ok(await button.isDisabled());
  assert.equal(await button.getAttribute('title'), '1 disk belongs to no pool');
});

test('a viewer selects nothing, and a phone has room for the selection', { skip }, async () => {
  const viewer = await on.as('viewer');
  await visit(viewer, '/disks', 'Disks');
  await settled(viewer);
  assert.equal(await viewer.getByRole('checkbox').count(), 0);
  await viewer.context().close();
  const phone = await on.as('operator', { viewport: PHONE });
  await visit(phone, '/disks', 'Disks');
  await phone.getByLabel('Select all disks').check();
  await phone.getByRole('region', { name: 'Selected disks' }).waitFor();
  const overhang = await phone.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.ok(overhang <= 0, `${overhang} pixels stick out`);
  await phone.context().close();
});

test('nothing went wrong in the pages', { skip }, () => assert.deepEqual(on.troubles, []));
