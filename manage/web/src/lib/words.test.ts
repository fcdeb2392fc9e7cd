// Kinds of jobs before their objects.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Job } from './api/types';
import { jobKind, jobKindOf, jobProgress } from './words.ts';

test('a job is of its object once', () => {
  assert.equal(jobKindOf('scrub'), 'Scrub of');
  assert.equal(jobKindOf('scrub-files'), 'Scrub files of');
  assert.equal(jobKind('scrub-files'), 'Scrub files of');
});

test('a job of which nobody knows how much there is to do has no share', () => {
  const job = (done_bytes: number, total_bytes: number) => ({ done_bytes, total_bytes }) as Job;
  assert.equal(jobProgress(job(3 << 20, 0)), '3 MiB done');
  assert.equal(jobProgress(job(1 << 20, 2 << 20)), '50 %: 1 MiB of 2 MiB');
});
