// What axe-core finds against WCAG 2.2 AA on a page, and whether the page fits into its window.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { AxeResults } from 'axe-core';
import type { Page } from 'playwright-core';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const RULES = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'];

async function violations(page: Page): Promise<string[]> {
  await page.evaluate(AXE);
  const found = await page.evaluate(
    (rules) =>
      (globalThis as unknown as { axe: { run(what: Document, how: object): Promise<AxeResults> } }).axe.run(document, {
        runOnly: rules,
      }),
    RULES,
  );
  return found.violations.map(
    ({ id, nodes }) => `${id}: ${nodes.map((node) => `${node.target.join(' ')} ${node.failureSummary ?? ''}`).join('; ')}`,
  );
}

/** How far the page reaches beyond its window, to the right. */
const overhang = (page: Page) => page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);

/** Fails if the page has a fault. */
export async function check(page: Page, name: string): Promise<void> {
  assert.deepEqual(await violations(page), [], name);
  // Neither the compiler nor the page complains when an object is written where its name is meant.
  assert.ok(!(await page.content()).includes('[object Object]'), `${name} shows an object instead of its name`);
  assert.ok((await overhang(page)) <= 0, `${name} is wider than the window`);
}
