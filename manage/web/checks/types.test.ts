// The client's types are those of the API's document.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import openapi, { astToString } from 'openapi-typescript';

const ROOT = join(import.meta.dirname, '..');

test('src/lib/api/schema.d.ts is made from docs/openapi.json', async () => {
  const document = JSON.parse(readFileSync(join(ROOT, '../../docs/openapi.json'), 'utf8'));
  const made = astToString(await openapi(document, { alphabetize: true }));
  const kept = readFileSync(join(ROOT, 'src/lib/api/schema.d.ts'), 'utf8');
  assert.ok(kept.endsWith(made), 'the types are not current; run: npm run types');
});
