// From the link of the first start to a pool, a mirrored space and an export that a client writes and reads, all by the wizards.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { closeSync, openSync, readFileSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import { launch, open } from './support/browser.ts';
import { skip } from './support/scene.ts';
import { PASSWORD, run, Server } from './support/server.ts';

/** Writes a partition table, so that the disk carries something. */
function markPartitioned(disk: string): void {
  const table = Buffer.alloc(512);
  table[446 + 4] = 0x83;
  table.writeUInt32LE(64, 446 + 8);
  table.writeUInt32LE(512, 446 + 12);
  table.writeUInt16LE(0xaa55, 510);
  const file = openSync(disk, 'r+');
  writeSync(file, table);
  closeSync(file);
}

let server: Server;
let browser: Browser;
let page: Page;
const troubles: string[] = [];

before(async () => {
  if (skip) return;
  server = await Server.start(6);
  markPartitioned(server.disk(6));
  browser = await launch();
  page = await open(browser, server, {}, troubles);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

const dialog = (name: string) => page.getByRole('dialog', { name });
const atField = (label: string) => page.getByLabel(label, { exact: true });
const invalid = async (label: string) => (await atField(label).getAttribute('aria-invalid')) === 'true';

async function said(label: string): Promise<string> {
  const ids = (await atField(label).getAttribute('aria-describedby')) ?? '';
  const texts = await Promise.all(ids.split(' ').map((id) => page.locator(`[id="${id}"]`).textContent()));
  return texts.join(' ');
}

test('the link of the first start makes the first account', { skip }, async () => {
  await page.goto(server.setupLink);
  await page.getByRole('heading', { name: 'Set up Holdfast' }).waitFor();
  assert.equal(new URL(page.url()).hash, '', 'the token stays in the address');
  await atField('Password').fill('short');
  await atField('Password again').fill('other');
  await page.getByRole('button', { name: 'Create account' }).click();
  assert.ok(await invalid('Password'));
  assert.match(await said('Password'), /10 characters/);
  assert.match(await said('Password again'), /differ/);
  await atField('Password').fill(PASSWORD);
  await atField('Password again').fill(PASSWORD);
  await page.getByRole('button', { name: 'Create account' }).click();
  await page.getByRole('heading', { name: 'Welcome' }).waitFor();
});

test('an empty server shows its disks and what each layout would give', { skip }, async () => {
  await page.getByText('5 disks', { exact: true }).waitFor();
  const table = page.getByRole('table', { name: 'Capacity of 5 disks in each layout' });
  for (const layout of ['Simple', 'Two-way mirror', 'Three-way mirror', 'Single parity', 'Dual parity']) {
    const row = table.getByRole('row', { name: layout }).first();
    assert.match((await row.textContent()) ?? '', /[MG]iB/, layout);
  }
});

test('the pool wizard says what is wrong at the field, then makes the pool', { skip }, async () => {
  await page.getByRole('button', { name: 'Create your first pool' }).click();
  const wizard = dialog('Create a pool');
  await wizard.getByRole('checkbox', { name: server.disk(1) }).waitFor();
  await atField('Name').fill('ta nk');
  await wizard.getByRole('checkbox', { name: 'Select all' }).uncheck();
  await wizard.getByRole('button', { name: 'Create pool' }).click();
  assert.match(await said('Name'), /is not allowed/);
  assert.ok(await wizard.getByText('Select at least one disk.').isVisible());
  await atField('Name').fill('tank');
  await wizard.getByRole('checkbox', { name: 'Select all' }).check();
  await wizard.getByLabel(`Usage of ${server.disk(5)}`).selectOption('hot-spare');
  const command = await wizard.getByLabel('Command that does the same').textContent();
  assert.match(
    command ?? '',
    /^holdfast pool create tank --disk \S+disk1.img .*&&\nholdfast disk set \S+disk5.img --usage hot-spare$/,
  );
  await wizard.getByRole('button', { name: 'Create pool' }).click();
  await page.getByRole('heading', { level: 1, name: 'tank' }).waitFor();
  // The machine may have disks as well.
  const listed = await server.get<{ path: string; pool: string; usage: string }[]>('/disks');
  const disks = listed.filter((disk) => disk.path.startsWith(server.folder));
  assert.deepEqual(
    disks.map((disk) => [disk.pool, disk.usage]),
    [[null, null], ...Array(4).fill(['tank', 'auto']), ['tank', 'hot-spare']],
  );
});

test('a disk that carries something is taken only on the word that it may be lost', { skip }, async () => {
  await page.goto('/pools');
  await page.getByRole('button', { name: 'Create a pool…' }).click();
  const wizard = dialog('Create a pool');
  await wizard.getByText(/^\d+ disks? (is|are) in use or not empty$/).click();
  await wizard.getByText(/holds a partition table \(dos\)/).waitFor();
  await wizard.getByRole('checkbox', { name: `Use ${server.disk(6)} anyway` }).check();
  await atField('Name').fill('scratch');
  await wizard.getByText(/partition table \(dos\); it is lost/).waitFor();
  await wizard.getByRole('button', { name: 'Create pool' }).click();
  assert.match(await said('The data on these disks may be lost'), /Confirm that the data may be lost/);
  assert.equal((await server.get<unknown[]>('/pools')).length, 1, 'the pool was made all the same');
  await atField('The data on these disks may be lost').check();
  await wizard.getByRole('button', { name: 'Create pool' }).click();
  await page.getByRole('heading', { level: 1, name: 'scratch' }).waitFor();
  await page.goto('/pools/tank');
});

test('the space wizard previews, stays open where it is refused, and makes the space', { skip }, async () => {
  await page.getByRole('button', { name: 'Create a space…' }).click();
  const wizard = dialog('Create a space');
  const preview = wizard.getByRole('region', { name: 'Preview' });
  await preview.getByText('1 lost disk').first().waitFor();
  await atField('Size').fill('much');
  await wizard.getByRole('button', { name: 'Create space' }).click();
  assert.match(await said('Size'), /not a size/);
  await atField('Size').fill('2GiB');
  await preview.getByText('Does not fit', { exact: true }).waitFor();
  await wizard.getByRole('button', { name: 'Create space' }).click();
  await wizard.locator('[name=size][aria-invalid=true]').waitFor();
  assert.match(await said('Size'), /does not fit.*next: /);
  await atField('Size').fill('64MiB');
  await atField('Columns').fill('33');
  await wizard.getByRole('button', { name: 'Create space' }).click();
  await wizard.locator('[name=columns][aria-invalid=true]').waitFor();
  assert.match(await said('Columns'), /33 columns needs 66 disks/);
  assert.equal(await atField('Size').inputValue(), '64MiB', 'what was entered is lost');
  await atField('Columns').fill('');
  await atField('Name').fill('vm');
  await wizard.getByText('Dual parity').first().click();
  await preview.getByText('2 lost disks').first().waitFor();
  await wizard.getByText('Two-way mirror').first().click();
  await preview.getByText('Fits', { exact: true }).waitFor();
  const command = await wizard.getByLabel('Command that does the same').textContent();
  assert.equal(command, 'holdfast space create tank/vm --layout mirror --copies 2 --size 64MiB');
  await wizard.getByRole('button', { name: 'Create space' }).click();
  await page.getByRole('heading', { level: 1, name: 'tank/vm' }).waitFor();
});

test('a client writes and reads what the export wizard serves', { skip }, async () => {
  await page.getByRole('button', { name: 'Export…' }).click();
  const wizard = dialog('Export a space');
  await page.waitForFunction(() => document.querySelector<HTMLSelectElement>('dialog select[name=space]')?.value === 'tank/vm');
  await wizard.getByLabel('Name').fill('a/b');
  await wizard.getByRole('button', { name: 'Export', exact: true }).click();
  await wizard.locator('[name=name][aria-invalid=true]').waitFor();
  await wizard.getByLabel('Name').fill('vm');
  await wizard.getByRole('button', { name: 'Export', exact: true }).click();
  await page.getByRole('heading', { level: 2, name: 'vm' }).waitFor();
  const shown = await page.getByLabel('Command that does the same').allTextContents();
  const info = shown.find((command) => command.startsWith('nbdinfo '));
  assert.ok(info, shown.join('\n'));
  assert.match(run('sh', '-c', info), /export-size: 67108864/);
  const [written, read] = [join(server.folder, 'written'), join(server.folder, 'read')];
  writeFileSync(written, randomBytes(64 * 1024 ** 2));
  const uri = info.slice('nbdinfo '.length).replaceAll("'", '');
  run('nbdcopy', written, uri);
  run('nbdcopy', uri, read);
  assert.ok(readFileSync(written).equals(readFileSync(read)), 'what was read is not what was written');
});

test('nothing went wrong in the page', { skip }, () => assert.deepEqual(troubles, []));
