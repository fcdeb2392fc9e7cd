// A conversion says what protection there is before, on the way and after; less of it, and an end on the way, want a word.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { visit } from './support/browser.ts';
import { fill, mirrored, scene, skip } from './support/scene.ts';
import { sizeOf } from './support/server.ts';

const on = scene(6, 0, async (server) => {
  await mirrored(server, 'vm', sizeOf('64MiB'));
  fill(server, sizeOf('64MiB'), 'vm');
});

test('a plan that is refused is forgotten when something else is entered', { skip }, async () => {
  const { page } = on;
  await visit(page, '/spaces/tank/vm', 'tank/vm');
  await page.getByRole('button', { name: /^Convert/ }).click();
  const dialog = page.getByRole('dialog');
  const plan = dialog.getByRole('region', { name: 'Plan' });
  await dialog.getByLabel('Columns').fill('99');
  await plan.getByRole('alert').waitFor();
  await dialog.getByRole('button', { name: 'Convert', exact: true }).click();
  await dialog.locator('[name=columns][aria-invalid=true]').waitFor();
  await dialog.getByLabel('Columns').fill('3');
  await plan.getByRole('alert').waitFor({ state: 'detached' });
  await dialog.locator('[name=columns]:not([aria-invalid])').waitFor();
  await plan.getByText('Data to move, at most').waitFor();
  await dialog.getByRole('button', { name: 'Close' }).click();
});

test('less protection is said, and done only where it is meant', { skip }, async () => {
  const { page, server } = on;
  await visit(page, '/spaces/tank/vm', 'tank/vm');
  await page.getByRole('button', { name: /^Convert/ }).click();
  const dialog = page.getByRole('dialog');
  const protection = dialog.getByLabel('Protection', { exact: true });
  await dialog.getByLabel('Layout').selectOption({ label: 'Three-way mirror' });
  assert.match(
    (await protection.textContent()) ?? '',
    /now\s*Survives 1 lost disk.*Meanwhile\s*Survives 1 lost disk.*Afterwards\s*Survives 2 lost disks/s,
  );
  assert.equal(await dialog.getByLabel('Less protection').count(), 0);
  await dialog.getByLabel('Layout').selectOption({ label: 'Simple' });
  assert.match(
    (await protection.textContent()) ?? '',
    /now\s*Survives 1 lost disk.*Meanwhile\s*Survives no lost disk.*Afterwards\s*Survives no lost disk/s,
  );
  await dialog.getByLabel('Maximum bytes per second').fill('64KiB');
  await dialog.getByRole('button', { name: 'Convert', exact: true }).click();
  await dialog.locator('[name=less][aria-invalid=true]').waitFor();
  assert.deepEqual(await server.get('/jobs'), []);
  await dialog.getByRole('checkbox', { name: /survives no lost disk then, not 1 lost disk/ }).check();
  await dialog.getByRole('button', { name: 'Convert', exact: true }).click();
  await dialog.waitFor({ state: 'detached' });
});

test('who cancels a conversion is told what protection is left', { skip }, async () => {
  const { page, server } = on;
  await visit(page, '/jobs', 'Jobs');
  const card = page.getByRole('article', { name: 'Convert of tank/vm' });
  await card.getByRole('button', { name: 'Cancel' }).click();
  const dialog = page.getByRole('dialog', { name: 'Cancel the conversion of tank/vm' });
  await dialog.getByText(/while part of it has the old layout, the space survives no lost disk/).waitFor();
  await dialog.getByRole('button', { name: 'Close' }).click();
  await card.getByText('Running').waitFor();
  await card.getByRole('button', { name: 'Cancel' }).click();
  await dialog.getByRole('button', { name: 'Cancel the conversion' }).click();
  await server.until('/jobs', (jobs: { state: string }[]) => jobs.every((job) => job.state === 'cancelled'));
});

test('nothing went wrong in the pages', { skip }, () => assert.deepEqual(on.troubles, []));
