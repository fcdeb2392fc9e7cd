// The table of all jobs shows why each of them waits, and how it ended, in full.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Locator } from 'playwright-core';
import { PHONE, visit } from './support/browser.ts';
import { fill, scene, skip } from './support/scene.ts';
import { sizeOf } from './support/server.ts';

const SIZE = sizeOf('64MiB');
interface Job {
  id: number;
  state: string;
  done_bytes: number;
  reason: { cause: string } | null;
}
/** Why a job waits. */
let reason = '';

const on = scene(6, 0, async (server) => {
  await server.post('/spaces', { name: 'tank/vm', layout: 'mirror', copies: 2, columns: 1, size_bytes: SIZE });
  await server.post('/exports', { space: 'tank/vm' });
  fill(server, SIZE, 'vm');
  const cap = { cap_bytes_per_second: sizeOf('1MiB') };
  const { job } = await server.post<{ job: Job }>('/spaces/tank/vm/convert', { layout: 'simple', columns: 2, ...cap });
  await server.until(`/jobs/${job.id}`, (now: Job) => now.done_bytes > 0);
  await server.post(`/jobs/${job.id}/pause`, {});
  // Whichever disks the row is on that is being moved: one of these has to wait for it.
  for (const disk of [0, 1, 2, 3, 4, 5]) {
    await server.ask('POST', `/disks/${encodeURIComponent(server.disk(disk))}/evacuate`, {});
  }
  await server.until('/jobs', (jobs: Job[]) => {
    reason = jobs.find((one) => one.reason)?.reason?.cause ?? '';
    return reason !== '';
  });
});

/** Whether nothing of what is in an element is cut off. */
async function isWhole(element: Locator): Promise<boolean> {
  return element.evaluate((cell) => cell.scrollWidth <= cell.clientWidth && cell.scrollHeight <= cell.clientHeight);
}

for (const [size, viewport] of [
  ['desktop', undefined],
  ['narrow window', { width: 900, height: 700 }],
  ['phone', PHONE],
] as const) {
  test(`a reason is read in full on a ${size}`, { skip }, async () => {
    const page = await on.as('administrator', viewport ? { viewport } : {});
    await visit(page, '/jobs', 'Jobs');
    const cell = page.getByRole('grid', { name: 'All jobs' }).getByRole('gridcell').filter({ hasText: reason });
    await cell.first().waitFor();
    assert.ok(reason.length > 60, reason);
    assert.ok(await isWhole(cell.first()), 'the cell shows all of it');
    for (const summary of await cell.locator('.summary').all()) assert.ok(await isWhole(summary), 'so does the summary');
    await page.context().close();
  });
}

test('rows of any height are walked by arrow keys', { skip }, async () => {
  const { page } = on;
  await visit(page, '/jobs', 'Jobs');
  const rows = page.getByRole('grid', { name: 'All jobs' }).locator('tbody tr[data-at]');
  await rows.first().focus();
  await page.keyboard.press('End');
  assert.ok(await rows.last().evaluate((row) => row === document.activeElement));
  await page.keyboard.press('Home');
  assert.ok(await rows.first().evaluate((row) => row === document.activeElement));
});

test('nothing went wrong in the pages', { skip }, () => assert.deepEqual(on.troubles, []));
