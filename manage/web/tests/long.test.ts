// A thousand objects in a list: only those in view are drawn, and all of them can be come to.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PHONE, visit } from './support/browser.ts';
import { mirrored, scene, skip } from './support/scene.ts';
import { sizeOf } from './support/server.ts';

const EXPORTS = 1000;
const DISKS = 120;
/** The pool keeps what is said of each export: small disks have no room for so many. */
const DISK_SIZE = '4GiB';
/** Those in view, and a few more on either side. */
const MOST_ROWS = 80;

const on = scene(
  DISKS,
  DISKS - 4,
  async (server) => {
    await mirrored(server, 'vm', sizeOf('64MiB'));
    for (let number = 2; number <= EXPORTS; number += 1) await server.post('/exports', { space: 'tank/vm', name: `vm${number}` });
  },
  DISK_SIZE,
);

for (const [size, viewport] of [
  ['desktop', undefined],
  ['phone', PHONE],
] as const) {
  test(`a thousand exports are a few rows on a ${size}`, { skip }, async () => {
    const page = await on.as('administrator', viewport ? { viewport } : {});
    await visit(page, '/exports', 'Exports');
    const grid = page.getByRole('grid', { name: 'Exports' });
    const rows = grid.locator('tbody tr[data-at]');
    await rows.first().waitFor();
    assert.equal(await grid.getAttribute('aria-rowcount'), String(EXPORTS + 1));
    const drawn = async () => {
      const count = await rows.count();
      assert.ok(count > 5 && count < MOST_ROWS, `${count} rows are drawn`);
    };
    await drawn();
    await grid.getByRole('button', { name: 'Name' }).click();
    await rows.first().focus();
    await page.keyboard.press('End');
    await grid.getByRole('link', { name: `vm${EXPORTS}`, exact: true }).waitFor();
    await drawn();
    await page.getByLabel('Filter exports').fill('vm777');
    await grid.getByRole('link', { name: 'vm777', exact: true }).waitFor();
    await page.waitForFunction((body) => body?.querySelectorAll('tr[data-at]').length === 1, await grid.elementHandle());
    await page.context().close();
  });
}

test('many disks are a few rows in the wizard too', { skip }, async () => {
  const { page } = on;
  await visit(page, '/pools', 'Pools');
  await page.getByRole('button', { name: 'Create a pool…' }).click();
  const wizard = page.getByRole('dialog');
  const rows = wizard.getByRole('grid').locator('tbody tr[data-at]');
  await rows.first().waitFor();
  await wizard.getByText(`Capacity of ${DISKS - 4} data disks`).waitFor();
  assert.ok((await rows.count()) < MOST_ROWS);
});

test('nothing went wrong in the pages', { skip }, () => assert.deepEqual(on.troubles, []));
