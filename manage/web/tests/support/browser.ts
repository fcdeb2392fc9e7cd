// A browser for a test: Debian's chromium, with a context for each person.
import { chromium, type Browser, type Page } from 'playwright-core';
import { FROM_DIST, fromDist } from './built.ts';
import { PASSWORD, PATIENCE_MS, type Server } from './server.ts';

const CHROMIUM = process.env['CHROMIUM'] ?? '/usr/bin/chromium';

export const DESKTOP = { width: 1440, height: 900 };
export const PHONE = { width: 390, height: 844 };

export interface Look {
  viewport?: { width: number; height: number };
  colorScheme?: 'light' | 'dark';
}

export function launch(): Promise<Browser> {
  // Containers and root have no sandbox to give; what is opened is the daemon under test alone.
  return chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox', '--disable-dev-shm-usage'] });
}

/** A browser window of nobody yet. What goes wrong in its pages is noted in `troubles`. */
export async function open(browser: Browser, server: Server, look: Look = {}, troubles: string[] = []): Promise<Page> {
  const context = await browser.newContext({
    baseURL: server.origin,
    ignoreHTTPSErrors: true,
    viewport: look.viewport ?? DESKTOP,
    colorScheme: look.colorScheme ?? 'light',
    permissions: ['clipboard-read', 'clipboard-write'],
    reducedMotion: 'reduce',
  });
  context.setDefaultTimeout(PATIENCE_MS);
  if (FROM_DIST) {
    const isConsole = ({ origin, pathname }: URL) => origin === server.origin && !pathname.startsWith('/api/');
    await context.route(isConsole, (route) => route.fulfill(fromDist(new URL(route.request().url()).pathname)));
  }
  const page = await context.newPage();
  page.on('pageerror', (error) => troubles.push(String(error)));
  return page;
}

/** Logs in by the form, and waits until the console is there. */
export async function logIn(page: Page, name: string): Promise<void> {
  await page.goto('/login');
  await page.getByLabel('Account').fill(name);
  await page.getByLabel('Password').fill(PASSWORD);
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByRole('button', { name: new RegExp(`^${name} `) }).waitFor();
}

/** A path of the console, with its heading there. */
export async function visit(page: Page, path: string, heading: string): Promise<void> {
  await page.goto(path);
  await page.getByRole('heading', { level: 1, name: heading }).waitFor();
}

/** Waits until nothing on the page is still being fetched for the first time. */
export async function settled(page: Page): Promise<void> {
  await page.waitForFunction(
    () => ![...document.querySelectorAll('[role=status]')].some((one) => one.textContent === 'Loading…'),
  );
}

/** Chooses something in a menu of a page, such as *Scan…* in the menu *Care*. */
export async function choose(page: Page, menu: string, item: string): Promise<void> {
  await page.getByRole('button', { name: menu, exact: true }).click();
  await page.getByRole('menuitem', { name: item }).click();
}
