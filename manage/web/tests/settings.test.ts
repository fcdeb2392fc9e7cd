// The settings of the server in the console: changed, kept, shown where they count; the backup; scrubs on the page of a space.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { visit } from './support/browser.ts';
import { mirrored, scene, skip } from './support/scene.ts';
import { sizeOf } from './support/server.ts';

const on = scene(4, 0, (server) => mirrored(server, 'vm', sizeOf('16MiB')));
const HOST = 'nas-of-tests';

interface Settings {
  preferences: { scrub_every: { seconds: number | null; origin: string }; alerts: { percents: number[] } };
}

test('settings are changed, and what was not changed is not sent', { skip }, async () => {
  const { page, server } = on;
  await visit(page, '/settings', 'Settings');
  const panel = page.getByRole('region', { name: 'Server' });
  await panel.getByText('every 7 days').waitFor();
  await panel.getByRole('button', { name: 'Change…' }).click();
  const dialog = page.getByRole('dialog', { name: 'Change settings' });
  await dialog.getByLabel('Scrub every space').fill('weekly');
  await dialog.getByRole('button', { name: 'Save' }).click();
  await dialog.getByText('This is not a time').waitFor();
  await dialog.getByLabel('Scrub every space').fill('5m');
  await dialog.getByRole('button', { name: 'Save' }).click();
  await dialog.locator('[name=scrub_every][aria-invalid=true]').waitFor();
  await dialog.getByLabel('Scrub every space').fill('30d');
  await dialog.getByLabel('Host name').fill(HOST);
  await dialog.getByLabel('Warn when a pool is this full').fill('80');
  const command = await dialog.getByLabel('Command that does the same').textContent();
  assert.equal(command, `holdfast settings set --host-name ${HOST} --scrub-every 30d --alert 80`);
  await dialog.getByRole('button', { name: 'Save' }).click();
  await dialog.waitFor({ state: 'detached' });
  await panel.getByText('every 30 days').waitFor();
  const { preferences } = await server.get<Settings>('/settings');
  assert.deepEqual(preferences.scrub_every, { seconds: 30 * 86_400, origin: 'set' });
  assert.deepEqual(preferences.alerts.percents, [80]);
});

test('the name of the server is in the header and in the title of each page', { skip }, async () => {
  const { page } = on;
  await page.getByRole('banner').getByText(HOST).waitFor();
  assert.equal(await page.title(), `Settings – ${HOST} – Holdfast`);
  await visit(page, '/spaces', 'Spaces');
  await page.waitForFunction((title) => document.title === title, `Spaces – ${HOST} – Holdfast`);
});

test('an empty field goes back to the default', { skip }, async () => {
  const { page, server } = on;
  await visit(page, '/settings', 'Settings');
  await page.getByRole('region', { name: 'Server' }).getByRole('button', { name: 'Change…' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Scrub every space').fill('');
  assert.equal(
    await dialog.getByLabel('Command that does the same').textContent(),
    'holdfast settings set --scrub-every default',
  );
  await dialog.getByRole('button', { name: 'Save' }).click();
  await dialog.waitFor({ state: 'detached' });
  await page.getByRole('region', { name: 'Server' }).getByText('every 7 days').waitFor();
  assert.equal((await server.get<Settings>('/settings')).preferences.scrub_every.origin, 'default');
  assert.equal(
    await page.evaluate(() => document.activeElement?.textContent?.trim()),
    'Change…',
    'the focus is not where it came from',
  );
});

test('a pool leaves its warnings to the server again', { skip }, async () => {
  const { page, server } = on;
  const alert = async () => (await server.get<{ alert: { percents: number[]; default: boolean } }>('/pools/tank')).alert;
  const set = async (text: string) => {
    // Loaded anew: the form leaves out what the page takes for unchanged.
    await visit(page, '/pools/tank', 'tank');
    await page.getByRole('group', { name: 'Actions of pool tank' }).getByRole('button', { name: 'Set…' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Warn when this full').fill(text);
    await dialog.getByRole('button', { name: 'Set', exact: true }).click();
    await dialog.waitFor({ state: 'detached' });
  };
  await set('50, 60');
  assert.deepEqual((await alert()).percents, [50, 60]);
  await set('');
  assert.deepEqual([(await alert()).percents, (await alert()).default], [[80], true]);
});

test('the backup is downloaded', { skip }, async () => {
  const { page } = on;
  await visit(page, '/settings', 'Settings');
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('link', { name: 'Download backup' }).click(),
  ]);
  assert.match(download.suggestedFilename(), /\.db$/);
  assert.equal(
    readFileSync(await download.path())
      .subarray(0, 15)
      .toString(),
    'SQLite format 3',
  );
});

test('a space shows its last and its next scrub', { skip }, async () => {
  const { page, server } = on;
  await visit(page, '/spaces/tank/vm', 'tank/vm');
  const fact = (name: string) => page.locator('dl.facts div').filter({ has: page.locator('dt', { hasText: name }) });
  await fact('Last scrub').getByText('none yet').waitFor();
  await server.post('/spaces/tank/vm/scrub', {});
  await fact('Last scrub').getByText('all agree').waitFor();
  await fact('Next scrub')
    .getByText(/^\d{4}-\d\d-\d\d/)
    .waitFor();
});

test('an operator sees no settings and is told who does', { skip }, async () => {
  const page = await on.as('operator');
  await visit(page, '/settings', 'Settings');
  await page.getByText('Only administrators see settings').waitFor();
  assert.equal(await page.getByRole('link', { name: 'Download backup' }).count(), 0);
  await page.context().close();
});

test('nothing went wrong in the pages', { skip }, () => assert.deepEqual(on.troubles, []));
