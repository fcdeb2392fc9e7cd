// A large server: overview, pool, spaces and a volume with a thousand snapshots ask for little, and draw what is in view.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Request } from 'playwright-core';
import { settled, visit } from './support/browser.ts';
import { scene, skip } from './support/scene.ts';
import { sizeOf } from './support/server.ts';

const DISKS = 60;
const SPACES = 200;
const SNAPSHOTS = 1000;
/** To the API by one page, the stream and the session among them. */
const MOST_REQUESTS = 30;
const MOST_ROWS = 80;
/** Elements of a page, whatever the server has. */
const MOST_ELEMENTS = 6000;

const on = scene(
  DISKS,
  0,
  async (server) => {
    const space = (name: string) => ({
      name: `tank/${name}`,
      layout: 'mirror',
      copies: 2,
      columns: 1,
      size_bytes: sizeOf('64MiB'),
    });
    for (let number = 1; number < SPACES; number += 1) await server.post('/spaces', { ...space(`s${number}`), thin: true });
    await server.post('/volumes', { name: 'tank/files', space: space('files') });
    for (let number = 1; number <= SNAPSHOTS; number += 1) {
      await server.post('/volumes/tank/files/snapshots', { name: `hour-${number}` });
    }
  },
  '1GiB',
);

for (const [path, heading] of [
  ['/', 'Overview'],
  ['/pools/tank', 'tank'],
  ['/spaces', 'Spaces'],
  ['/volumes/tank/files', 'tank/files'],
] as const) {
  test(`${path} asks for little and draws little`, { skip }, async (context) => {
    const { page } = on;
    // What the page before still asks for is not this one's.
    await page.goto('about:blank');
    let requests = 0;
    const count = (sent: Request) => (requests += Number(new URL(sent.url()).pathname.startsWith('/api/')));
    page.on('request', count);
    const begun = performance.now();
    await visit(page, path, heading);
    await settled(page);
    context.diagnostic(`${path} was there after ${Math.round(performance.now() - begun)} ms`);
    page.off('request', count);
    const asked = requests;
    context.diagnostic(`${asked} requests`);
    assert.ok(asked <= MOST_REQUESTS, `${asked} requests`);
    const drawn = await page.evaluate(() => ({
      rows: Math.max(
        0,
        ...[...document.querySelectorAll('[role=grid]')].map((grid) => grid.querySelectorAll('tr[data-at]').length),
      ),
      elements: document.querySelectorAll('*').length,
    }));
    assert.ok(drawn.rows < MOST_ROWS && drawn.elements < MOST_ELEMENTS, JSON.stringify(drawn));
  });
}

test('snapshots are found by words, chosen together and destroyed', { skip }, async () => {
  const { page, server } = on;
  await visit(page, '/volumes/tank/files', 'tank/files');
  const grid = page.getByRole('grid', { name: 'Snapshots' });
  await page.getByLabel('Filter snapshots').fill('hour-99');
  await page.getByLabel('Select all snapshots').check();
  await page.getByRole('button', { name: 'Destroy 11 snapshots…' }).click();
  const destroy = page.getByRole('dialog', { name: 'Destroy: 11 snapshots' });
  await destroy.getByText('holdfast snapshot destroy tank/files@hour-99 --yes', { exact: false }).waitFor();
  await destroy.getByRole('button', { name: 'Destroy snapshots' }).click();
  await destroy.getByText('Confirm that they are lost.').waitFor();
  await destroy.getByLabel(/^The files as these snapshots have them/).check();
  await destroy.getByRole('button', { name: 'Destroy snapshots' }).click();
  await destroy.waitFor({ state: 'detached' });
  await page.getByText('Nothing matches “hour-99”.').waitFor();
  await page.getByLabel('Filter snapshots').fill('');
  await grid.getByRole('row', { name: /hour-1000/ }).waitFor();
  const left = await server.get<{ name: string }[]>('/volumes/tank/files/snapshots');
  assert.deepEqual([left.length, left.some((one) => one.name.startsWith('hour-99'))], [SNAPSHOTS - 11, false]);
});

test('nothing went wrong in the pages', { skip }, () => assert.deepEqual(on.troubles, []));
