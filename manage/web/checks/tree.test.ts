// Sources are short and open with what they are for; nothing is fetched from elsewhere by the built console.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { test } from 'node:test';

const ROOT = join(import.meta.dirname, '..');
const MAX_LINES = 700;

function sources(folder: string): string[] {
  const files = readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true });
  return files
    .filter((file) => file.isFile() && /\.(ts|svelte|css)$/.test(file.name) && file.name !== 'schema.d.ts')
    .map((file) => join(file.parentPath, file.name));
}

const read = (path: string) => ({ path: relative(ROOT, path), text: readFileSync(path, 'utf8') });

test('no source file is too long', () => {
  const long = sources('src')
    .map(read)
    .filter(({ text }) => text.split('\n').length > MAX_LINES);
  assert.deepEqual(
    long.map(({ path }) => path),
    [],
  );
});

test('every source file opens with what it is for', () => {
  const opening = /^(\/\/ |\/\* |<!--\s)/;
  const closed = sources('src')
    .map(read)
    .filter(({ path, text }) => !/\.test\.ts$/.test(path) && !opening.test(text));
  assert.deepEqual(
    closed.map(({ path }) => path),
    [],
  );
});

test('packages come from the registry of npm alone', () => {
  const lock = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { resolved?: string }>;
  };
  const elsewhere = Object.values(lock.packages)
    .map((entry) => entry.resolved)
    .filter((from) => from && !from.startsWith('https://registry.npmjs.org/'));
  assert.deepEqual(elsewhere, []);
});
