// First steps on the overview: a list that becomes shorter as things are done, and goes.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { check } from './support/axe.ts';
import { settled, visit } from './support/browser.ts';
import { scene, skip } from './support/scene.ts';
import { sizeOf } from './support/server.ts';

const on = scene(3, 0, async (server) => {
  const space = { name: 'tank/files', layout: 'mirror', copies: 2, size_bytes: sizeOf('64MiB') };
  await server.post('/volumes', { name: 'tank/files', space });
});

const steps = () => on.page.getByRole('region', { name: 'First steps' });

test('what is done leaves the list, and so does what is not wanted', { skip }, async () => {
  const { page, server } = on;
  await visit(page, '/', 'Overview');
  for (const title of [
    'Be told of problems',
    'Schedule snapshots',
    'Back up the configuration',
    'Choose when disks are read through',
  ]) {
    await steps().getByRole('link', { name: title }).waitFor();
  }
  await check(page, 'overview with first steps');
  await server.ask('PUT', '/volumes/tank/files/snapshot-schedule?confirm=false', { every_seconds: 3600, keep: 24 });
  await steps().getByRole('link', { name: 'Schedule snapshots' }).waitFor({ state: 'detached' });
  await page.evaluate(async () => (await fetch('/api/v1/backup')).arrayBuffer());
  await server.ask('PATCH', '/settings', { scrub_every_seconds: 1_209_600 });
  await visit(page, '/', 'Overview');
  await steps().getByRole('link', { name: 'Be told of problems' }).waitFor();
  for (const title of ['Back up the configuration', 'Choose when disks are read through']) {
    assert.equal(await steps().getByRole('link', { name: title }).count(), 0, title);
  }
  const unwanted = steps().getByRole('button', { name: /^Not needed/ });
  for (let left = await unwanted.count(); left > 0; left -= 1) await unwanted.first().click();
  await steps().waitFor({ state: 'detached' });
  await visit(page, '/', 'Overview');
  await settled(page);
  assert.equal(await steps().count(), 0);
});

test('only administrators have them', { skip }, async () => {
  const viewer = await on.as('viewer');
  await visit(viewer, '/', 'Overview');
  await settled(viewer);
  assert.equal(await viewer.getByRole('region', { name: 'First steps' }).count(), 0);
  assert.deepEqual(on.troubles, []);
});
