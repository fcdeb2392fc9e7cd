// What most tests begin with: a daemon with a pool, a space and an export, somebody who is logged in, and all of it gone at the end.
import { after, afterEach, before, type TestContext } from 'node:test';
import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { launch, logIn, open, type Look } from './browser.ts';
import { BINARY, run, Server } from './server.ts';

export interface Scene {
  server: Server;
  browser: Browser;
  /** A window of an administrator. */
  page: Page;
  /** What went wrong in any window so far. */
  troubles: string[];
  /** A window of another account, which is made. */
  as(role: 'viewer' | 'operator' | 'administrator', look?: Look): Promise<Page>;
}

/** Why tests of the console are left out. */
export const skip = BINARY ? false : 'HOLDFAST_BIN names no binary';

/** Makes the scene before the tests of a file: so many disks, of a size, all but `free` of them in the pool `tank`. A test that fails says what its pages showed. */
export function scene(
  disks: number,
  free = 0,
  prepare: (server: Server) => Promise<void> = async () => {},
  size?: string,
): Scene {
  const made = { troubles: [] as string[] } as Scene;
  const known = new Set(['administrator-of-tests']);
  made.as = async (role, look = {}) => {
    const name = `${role}-of-tests`;
    if (!known.has(name)) await made.server.account(name, role);
    known.add(name);
    const page = await open(made.browser, made.server, look, made.troubles);
    await logIn(page, name);
    return page;
  };
  before(async () => {
    if (skip) return;
    made.server = await Server.start(disks, size);
    await made.server.account('administrator-of-tests', 'administrator');
    if (disks > free) await made.server.pool('tank', disks - free);
    await prepare(made.server);
    made.browser = await launch();
    made.page = await made.as('administrator');
  });
  afterEach(async (hooked) => {
    // That it tells whether the test passed is known to the runner, not to its types.
    const context = hooked as TestContext & { passed: boolean };
    if (context.passed) return;
    for (const page of made.browser?.contexts().flatMap((one) => one.pages()) ?? []) {
      const shown = await page.evaluate(() => document.body.innerText).catch(String);
      context.diagnostic(`${page.url()} showed:\n${shown}`);
    }
  });
  after(async () => {
    await made.browser?.close();
    await made.server?.stop();
  });
  return made;
}

/** A mirrored space of two columns in `tank`, and an export of it. */
export async function mirrored(server: Server, name: string, bytes: number): Promise<void> {
  await server.post('/spaces', { name: `tank/${name}`, layout: 'mirror', copies: 2, columns: 2, size_bytes: bytes });
  await server.post('/exports', { space: `tank/${name}` });
}

/** Writes something everywhere into exports of one size. */
export function fill(server: Server, bytes: number, ...names: string[]): void {
  const data = join(server.folder, 'data');
  writeFileSync(data, randomBytes(bytes));
  for (const name of names) run('nbdcopy', data, server.nbdUri.replace('NAME', name));
}
