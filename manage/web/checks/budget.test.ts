// The console is small: what a page needs before it is drawn stays under 130 kB gzipped, whichever page is the first, and all of the console
// under 260 kB.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { routes } from '../src/routes.ts';

const DIST = join(import.meta.dirname, '..', 'dist');
const MOST_BYTES_OF_PAGE = 130_000;
const MOST_BYTES = 260_000;

const read = (name: string) => readFileSync(join(DIST, name));
const sizeOf = (name: string) => gzipSync(read(name)).length;

/** The files that the first answer names: the console without any page. */
function files(index: string): string[] {
  return ['index.html', ...[...index.matchAll(/(?:src|href)="\/([^"]+)"/g)].map((found) => found[1]!)];
}

/** The files of each page, as the console's list for loading them has it. */
function pages(script: string): Map<string, string[]> {
  const list = /m\.f=(\[[^\]]*\])/.exec(script)?.[1];
  assert.ok(list, 'the console has no list of the files of its pages');
  const names = JSON.parse(list) as string[];
  const found = script.matchAll(/import\("\.\/([^"]+?)-[\w-]{8}\.js"\),__vite__mapDeps\(\[([\d,]*)\]\)/g);
  return new Map([...found].map(([, page, at]) => [page!, at!.split(',').map((one) => names[Number(one)]!)]));
}

test('what a page needs before it is drawn is small', () => {
  const index = read('index.html').toString();
  const first = files(index);
  const script = first.find((name) => /^assets\/index-.*\.js$/.test(name));
  assert.ok(script, `${DIST} holds no console; run: npm run build`);
  const known = pages(read(script).toString());
  for (const { page } of routes) {
    const own = known.get(page);
    assert.ok(own, `no files of page ${page} are known`);
    const sizes = [...new Set([...first, ...own])].map((name) => ({ name, size: sizeOf(name) }));
    const total = sizes.reduce((sum, { size }) => sum + size, 0);
    const largest = sizes.sort((a, b) => b.size - a.size).slice(0, 5);
    const words = largest.map(({ name, size }) => `${name} ${size}`).join(', ');
    assert.ok(total < MOST_BYTES_OF_PAGE, `${page}: ${total} bytes gzipped; the largest: ${words}`);
  }
});

test('all of it is small as well', () => {
  const all = readdirSync(DIST, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const total = all.reduce((sum, { name, parentPath }) => sum + gzipSync(readFileSync(join(parentPath, name))).length, 0);
  assert.ok(total > 10_000 && total < MOST_BYTES, `${total} bytes gzipped`);
});
