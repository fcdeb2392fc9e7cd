// A lost disk among sixty is one card, and the rest stays quiet.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { visit } from './support/browser.ts';
import { mirrored, scene, skip } from './support/scene.ts';
import { sizeOf } from './support/server.ts';

const DISKS = 60;
const SPACES = 8;

const on = scene(DISKS, 0, async (server) => {
  for (let number = 0; number < SPACES; number += 1) await mirrored(server, `vm${number}`, sizeOf('64MiB'));
});

test('one lost disk of sixty is one card', { skip }, async () => {
  const { page, server } = on;
  const [row] = await server.get<{ slabs: { path: string }[] }[]>('/spaces/tank/vm0/map');
  server.pull(Number(/disk(\d+)\.img$/.exec(row?.slabs[0]?.path ?? '')?.[1]));
  await server.until('/status', ({ causes }: { causes: unknown[] }) => causes.length > 0);
  await visit(page, '/', 'Overview');
  const card = page.getByRole('region', { name: 'Health', exact: true }).getByRole('article');
  await card.getByText(/is missing, last seen/).waitFor();
  assert.equal(await card.count(), 1);
  const { causes } = await server.get<{ causes: { kind: string; disks: unknown[] }[] }>('/status');
  assert.deepEqual(
    causes.map(({ kind, disks }) => [kind, disks.length]),
    [['disk-lost', 1]],
  );
});

test('nothing went wrong in the pages', { skip }, () => assert.deepEqual(on.troubles, []));
