// A disk that is back shows how far its resync is, also while that cannot go on; one that is being replaced is not asked for any more.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { visit } from './support/browser.ts';
import { fill, scene, skip } from './support/scene.ts';
import { sizeOf } from './support/server.ts';

const SIZE = sizeOf('64MiB');
/** The disks with the copies of the first row. */
let pair: number[] = [];

const on = scene(6, 1, async (server) => {
  await server.post('/spaces', { name: 'tank/vm', layout: 'mirror', copies: 2, columns: 1, size_bytes: SIZE });
  await server.post('/exports', { space: 'tank/vm' });
  fill(server, SIZE, 'vm');
  const [row] = await server.get<{ slabs: { path: string }[] }[]>('/spaces/tank/vm/map');
  pair = (row?.slabs ?? []).map(({ path }) => Number(/disk(\d+)\.img$/.exec(path)?.[1]));
});

interface Status {
  causes: { kind: string; resync_percent: number | null }[];
}

test('a resync that waits for another disk shows how far it is', { skip }, async () => {
  const { page, server } = on;
  const [first, second] = pair as [number, number];
  const missing = (number: number) =>
    server.until('/disks', (disks: { path: string; state: string }[]) =>
      disks.some((disk) => disk.path === server.disk(number) && disk.state === 'missing'),
    );
  server.pull(first);
  await missing(first);
  fill(server, SIZE, 'vm');
  // What the first one missed of that row is on the second one alone.
  server.pull(second);
  await missing(second);
  server.putBack(first);
  await server.until('/status', ({ causes }: Status) => causes.some(({ kind }) => kind === 'disk-resyncing'));
  await visit(page, '/', 'Overview');
  const cards = page.getByRole('region', { name: 'Health', exact: true }).getByRole('article');
  const card = cards.filter({ has: page.getByRole('progressbar', { name: /^Resync of disk/ }) });
  await card.getByText(/\d+ %, \d+ slabs? to go/).waitFor();
  assert.doesNotMatch((await card.textContent()) ?? '', /attach/);
  const { causes } = await server.get<Status>('/status');
  const percent = causes.find(({ kind }) => kind === 'disk-resyncing')?.resync_percent ?? 100;
  assert.ok(percent < 100, `${percent} %`);
  server.putBack(second);
  await page.getByText(/^All \d+ objects are healthy/).waitFor();
});

test('a missing disk that is being replaced says so, and asks for nothing', { skip }, async () => {
  const { page, server } = on;
  const [first] = pair as [number];
  server.pull(first);
  await visit(page, '/', 'Overview');
  const card = page.getByRole('region', { name: 'Health', exact: true }).getByRole('article');
  await card.getByText(/is missing, last seen/).waitFor();
  await card.getByRole('button', { name: 'Replace…' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Maximum bytes per second').fill('1MiB');
  await dialog.getByRole('button', { name: 'Replace', exact: true }).click();
  await dialog.waitFor({ state: 'detached' });
  await card.getByText(/is being replaced: job \d+/).waitFor();
  assert.doesNotMatch((await card.textContent()) ?? '', /attach it again or replace it/);
  // The disks that take its slabs are no causes of their own.
  assert.equal(await card.count(), 1);
  const [job] = (await server.get<{ id: number; state: string }[]>('/jobs')).filter((one) => one.state === 'running');
  await server.ask('PATCH', `/jobs/${job?.id}`, { cap_bytes_per_second: 0 });
  await page.getByText(/^All \d+ objects are healthy/).waitFor();
});

test('nothing went wrong in the pages', { skip }, () => assert.deepEqual(on.troubles, []));
