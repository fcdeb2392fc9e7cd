// Pictures of every page for the docs, at the width of a desktop and of a phone: `npm run screenshots` writes them to docs/screenshots.
import { spawn } from 'node:child_process';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { DESKTOP, launch, logIn, open, PHONE } from './support/browser.ts';
import { come, furnish, OPEN_PAGES, PAGES } from './support/pages.ts';
import { Server } from './support/server.ts';

const FOLDER = join(import.meta.dirname, '../../../docs/screenshots');
const MOST_BYTES = 200_000;
const NAME = 'admin';
/** How long a client is at work before the pictures, so that charts have something to show. */
const BEFORE_MS = 90_000;

/** A client that reads and writes an export until the process is killed. */
function client(server: Server, name: string) {
  const load = ['--rw=randrw', '--rwmixread=67', '--bs=8k', '--iodepth=4', '--rate_iops=400,200', '--time_based', '--runtime=1h'];
  const where = ['--name=client', '--ioengine=nbd', `--uri=${server.nbdUri.replace('NAME', name)}`];
  return spawn('fio', [...where, ...load], { stdio: 'ignore', cwd: server.folder });
}

/** What the window shows, or the page as far down as it goes. */
async function picture(page: Page, path: string, whole: boolean): Promise<void> {
  const height = whole ? await page.evaluate(() => document.documentElement.scrollHeight) : 0;
  const { width, height: least } = page.viewportSize() ?? DESKTOP;
  const clip = { x: 0, y: 0, width, height: Math.max(least, height), scale: 1 };
  const chromium = await page.context().newCDPSession(page);
  const shot = { format: 'webp' as const, quality: 80, clip, captureBeyondViewport: whole };
  const bytes = Buffer.from((await chromium.send('Page.captureScreenshot', shot)).data, 'base64');
  if (bytes.length > MOST_BYTES) throw new Error(`${path} would have ${bytes.length} bytes: a picture has ${MOST_BYTES} at most`);
  writeFileSync(path, bytes);
}

const server = await Server.start(8);
const empty = await Server.start(6);
const browser = await launch();
let atWork: ReturnType<typeof client> | undefined;
try {
  await server.account(NAME, 'administrator');
  await server.pool('tank', 7);
  await furnish(server);
  atWork = client(server, 'vm');
  await new Promise((resolve) => setTimeout(resolve, BEFORE_MS));
  await empty.account(NAME, 'administrator');
  rmSync(FOLDER, { recursive: true, force: true });
  mkdirSync(FOLDER, { recursive: true });
  for (const [width, viewport] of [
    ['1440', DESKTOP],
    ['390', PHONE],
  ] as const) {
    for (const colorScheme of ['light', 'dark'] as const) {
      const look = { viewport, colorScheme };
      const path = (name: string) => join(FOLDER, `${name}-${width}${colorScheme === 'dark' ? '-dark' : ''}.webp`);
      const nobody = await open(browser, server, look);
      for (const shown of OPEN_PAGES) {
        if (colorScheme === 'dark') break;
        await come(nobody, shown, server);
        await picture(nobody, path(shown.name), false);
      }
      const first = await open(browser, empty, look);
      await logIn(first, NAME);
      await come(first, { name: 'welcome', path: '/', heading: 'Welcome' }, empty);
      await picture(first, path('welcome'), false);
      const page = await open(browser, server, look);
      await logIn(page, NAME);
      for (const shown of PAGES) {
        // One page tells how the dark looks; the tests look at all of them.
        if (colorScheme === 'dark' && shown.name !== 'overview' && shown.name !== 'pool') continue;
        await come(page, shown, server);
        await picture(page, path(shown.name), !shown.name.startsWith('wizard'));
      }
      for (const one of [nobody, first, page]) await one.context().close();
    }
  }
} finally {
  await browser.close();
  atWork?.kill();
  await server.stop();
  await empty.stop();
}
