// Ids that a number cannot hold keep all their digits.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { exactIds } from './exact.ts';

test('a long id keeps its digits, and all else stays as it is', () => {
  const journal = JSON.parse(exactIds('{"id":17957030327607123,"first":8,"next":1448}')) as object;
  assert.deepEqual(journal, { id: '17957030327607123', first: 8, next: 1448 });
  assert.deepEqual(JSON.parse(exactIds('{"job":{"id":7},"size":17957030327607123}')), {
    job: { id: 7 },
    size: 17957030327607124,
  });
});

test('what only looks like an id is left alone', () => {
  const text = JSON.stringify({ name: '"id":17957030327607123,', id: 'a' });
  assert.equal(exactIds(text), text);
});
