// Kinds of jobs before their objects.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { jobKind, jobKindOf } from './words.ts';

test('a job is of its object once', () => {
  assert.equal(jobKindOf('scrub'), 'Scrub of');
  assert.equal(jobKindOf('scrub-files'), 'Scrub files of');
  assert.equal(jobKind('scrub-files'), 'Scrub files of');
});
