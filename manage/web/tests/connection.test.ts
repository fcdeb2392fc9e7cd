// What is shown is never old and green: a daemon that hangs and a cable that is cut are noticed, on the page and in its tab.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Page } from 'playwright-core';
import { launch, logIn, visit } from './support/browser.ts';
import { Cable } from './support/cable.ts';
import { mirrored, scene, skip } from './support/scene.ts';
import { sizeOf } from './support/server.ts';

const on = scene(5, 0, async (server) => {
  await mirrored(server, 'vm', sizeOf('64MiB'));
});

const tabIcon = (page: Page) => page.evaluate(() => document.querySelector('link[rel=icon]')?.getAttribute('href') ?? '');
const title = (page: Page, wanted: RegExp) =>
  page.waitForFunction((text) => new RegExp(text).test(document.title), wanted.source);

/** The page says that it is healthy and current. */
async function current(page: Page): Promise<void> {
  await page.getByRole('link', { name: 'Health: Healthy' }).waitFor();
  await page.getByText(/^All \d+ objects are healthy/).waitFor();
  await title(page, /^Overview/);
  assert.equal(await page.locator('.stale').count(), 0);
}

/** The page says that it is not. */
async function old(page: Page): Promise<void> {
  await page
    .getByRole('alert')
    .getByText(/No connection since \d\d:\d\d:\d\d, retrying/)
    .waitFor();
  await page.getByRole('link', { name: 'Health: Unknown' }).waitFor();
  await title(page, /^\(\?\) Overview/);
  assert.equal(await page.locator('.stale').count(), 1, 'figures are greyed');
  assert.equal(await page.getByText(/^All \d+ objects are healthy/).count(), 0);
  assert.equal(await page.getByText('Healthy', { exact: true }).count(), 0);
}

test('a daemon that hangs is noticed, and so is that it goes on', { skip }, async (t) => {
  const { page, server } = on;
  await visit(page, '/', 'Overview');
  await current(page);
  const before = await tabIcon(page);
  const began = performance.now();
  server.freeze();
  try {
    await old(page);
    t.diagnostic(`noticed after ${Math.round(performance.now() - began)} ms`);
    assert.notEqual(await tabIcon(page), before);
  } finally {
    server.thaw();
  }
  await current(page);
  assert.equal(await tabIcon(page), before);
});

test('a cable that is cut is noticed, and what happened meanwhile is shown after', { skip }, async (t) => {
  const { server } = on;
  const cable = await Cable.to(server.origin);
  const browser = await launch();
  try {
    const context = await browser.newContext({ baseURL: cable.origin, ignoreHTTPSErrors: true });
    const page = await context.newPage();
    await logIn(page, 'administrator-of-tests');
    await visit(page, '/', 'Overview');
    await current(page);
    const began = performance.now();
    cable.cut();
    await old(page);
    t.diagnostic(`noticed after ${Math.round(performance.now() - began)} ms`);
    server.pull(2);
    await server.until('/disks', (disks: { state: string }[]) => disks.some((disk) => disk.state === 'missing'));
    cable.mend();
    await page.getByRole('alert').getByText('No connection').waitFor({ state: 'detached' });
    await page.getByRole('link', { name: 'Health: Unhealthy' }).waitFor();
    await title(page, /^\(!\) Overview/);
    assert.match(await tabIcon(page), /^data:image\/svg\+xml/);
  } finally {
    await browser.close();
    cable.close();
    server.putBack(2);
  }
});

test('ten seconds of silence are enough on the clock of the page', { skip }, async () => {
  const { server } = on;
  const page = await on.as('viewer');
  await page.clock.install();
  await visit(page, '/', 'Overview');
  await current(page);
  server.freeze();
  try {
    await page.clock.runFor(10_000);
    assert.equal(await page.locator('.stale').count(), 1, 'figures are greyed');
    assert.match(await page.title(), /^\(\?\) Overview/);
    assert.equal(await page.getByRole('link', { name: 'Health: Unknown' }).count(), 1);
  } finally {
    server.thaw();
    await page.context().close();
  }
});

test('nothing went wrong in the pages', { skip }, () => assert.deepEqual(on.troubles, []));
