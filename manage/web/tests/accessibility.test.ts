// Everybody can use every page: axe-core finds nothing against WCAG 2.2 AA, in light and dark, on a desktop and a phone; nothing is
// wider than the window; and what can be done can be done by keyboard.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { check } from './support/axe.ts';
import { DESKTOP, open, PHONE, visit } from './support/browser.ts';
import { come, furnish, OPEN_PAGES, PAGES } from './support/pages.ts';
import { scene, skip } from './support/scene.ts';
import { Server } from './support/server.ts';

const on = scene(8, 1, furnish);
let empty: Server;
before(async () => {
  if (!skip) empty = await Server.start(3);
});
after(() => empty?.stop());

for (const [size, viewport] of [
  ['desktop', DESKTOP],
  ['phone', PHONE],
] as const) {
  for (const colorScheme of ['light', 'dark'] as const) {
    test(`no page has a fault on a ${size} in ${colorScheme}`, { skip }, async (t) => {
      const page = await on.as('administrator', { viewport, colorScheme });
      for (const shown of PAGES) {
        await t.test(shown.name, async () => {
          await come(page, shown, on.server);
          await check(page, shown.name);
        });
      }
      const nobody = await open(on.browser, on.server, { viewport, colorScheme }, on.troubles);
      for (const shown of OPEN_PAGES) {
        await t.test(shown.name, async () => {
          await come(nobody, shown, on.server);
          await check(nobody, shown.name);
        });
      }
      await page.context().close();
      await nobody.context().close();
    });
  }
}

test('the first page of an empty server has no fault', { skip }, async () => {
  const page = await open(on.browser, empty, { viewport: PHONE }, on.troubles);
  await page.goto(empty.setupLink);
  await page.getByLabel('Password', { exact: true }).fill('correct horse battery');
  await page.getByLabel('Password again').fill('correct horse battery');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Welcome' }).waitFor();
  await check(page, 'welcome');
  await page.context().close();
});

test('lists and dialogs are used by keyboard alone', { skip }, async () => {
  const { page } = on;
  await visit(page, '/spaces', 'Spaces');
  const grid = page.getByRole('grid', { name: 'Spaces' });
  await grid.getByRole('row').nth(1).focus();
  await page.keyboard.press('End');
  await page.waitForFunction(() => document.activeElement?.textContent?.includes('tank/vm'));
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'tank/vm' }).waitFor();
  const button = page.getByRole('button', { name: 'Export…' });
  await button.focus();
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').waitFor();
  assert.ok(
    await page.evaluate(() => document.querySelector('dialog')?.contains(document.activeElement)),
    'the focus is not in the dialog',
  );
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
});

test('nothing went wrong in the pages', { skip }, () => assert.deepEqual(on.troubles, []));
