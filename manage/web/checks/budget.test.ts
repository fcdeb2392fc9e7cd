// The console is small: all of it, gzipped, stays under 195 kB.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';

const DIST = join(import.meta.dirname, '..', 'dist');
const MOST_BYTES = 195_000;

test('the built console is under 195 kB gzipped', () => {
  const files = readdirSync(DIST, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const sizes = files.map((file) => ({ name: file.name, size: gzipSync(readFileSync(join(file.parentPath, file.name))).length }));
  const total = sizes.reduce((sum, { size }) => sum + size, 0);
  const largest = sizes.sort((a, b) => b.size - a.size).slice(0, 5);
  assert.ok(total > 10_000, `${DIST} holds no console; run: npm run build`);
  assert.ok(
    total < MOST_BYTES,
    `${total} bytes gzipped; the largest: ${largest.map(({ name, size }) => `${name} ${size}`).join(', ')}`,
  );
});
