// The last scrub of a volume, and the command that finds files that lost data.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Job } from './api/types';
import { findCommand, lastScrub } from './integrity.ts';

const job = (id: number, more: Partial<Job> = {}) =>
  ({
    id,
    kind: 'scrub-files',
    object: { kind: 'volume', id: '1', name: 'tank/files' },
    state: 'done',
    ended: '2026-11-26T06:00:00.000Z',
    ...more,
  }) as Job;

test('the last scrub is the newest that ended, of that volume', () => {
  const jobs = [
    job(3),
    job(5, { state: 'failed' }),
    job(4),
    job(6, { ended: null, state: 'running' }),
    job(7, { kind: 'scan' }),
    job(8, { object: { kind: 'volume', id: '2', name: 'tank/other' } }),
    job(9, { object: { kind: 'space', id: '3', name: 'tank/files' } }),
  ];
  assert.equal(lastScrub(jobs, 'tank/files')?.id, 5);
  assert.equal(lastScrub(jobs, 'tank/none'), null);
});

test('files that lost data are found by their numbers, each named once', () => {
  const block = (file: number, offset: number) => ({ file, offset, snapshot: false });
  assert.equal(findCommand('/srv/files', [block(12, 0), block(12, 4096)]), 'find /srv/files -xdev -inum 12');
  assert.equal(findCommand("/srv/kim's", [block(1, 0), block(2, 0)]), "find '/srv/kim'\\''s' -xdev \\( -inum 1 -o -inum 2 \\)");
  const many = Array.from({ length: 20 }, (_, number) => block(number, 0));
  assert.equal(findCommand('/a', many).match(/-inum/g)?.length, 8);
});
