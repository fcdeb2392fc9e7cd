import assert from 'node:assert/strict';
import { test } from 'node:test';
import { byDisk, pieceAt, pieces, sameRow } from './slabs.ts';

const slab = (disk: string, offset_bytes: number, column: number, copy: number) => ({
  disk,
  path: `/dev/${disk}`,
  offset_bytes,
  length_bytes: 100,
  column,
  copy,
  stale: false,
});
const rows = [
  { chunk: 0, journal: false, offset_bytes: 0, length_bytes: 100, slabs: [slab('b', 500, 0, 0), slab('a', 500, 0, 1)] },
  { chunk: 1, journal: false, offset_bytes: 100, length_bytes: 100, slabs: [slab('b', 100, 0, 0), slab('c', 0, 0, 1)] },
];

test('every slab has its place on its disk', () => {
  const lanes = byDisk(pieces('tank/vm', rows));
  assert.deepEqual([...lanes.keys()].sort(), ['a', 'b', 'c']);
  assert.deepEqual(
    lanes.get('b')?.map((piece) => piece.offset),
    [100, 500],
  );
});

test('the slab under the pointer is found, also one too small to hit', () => {
  const lane = byDisk(pieces('tank/vm', rows)).get('b')!;
  assert.equal(pieceAt(lane, 99, 0), undefined);
  assert.equal(pieceAt(lane, 99, 5)?.offset, 100);
  assert.equal(pieceAt(lane, 199, 0)?.offset, 100);
  assert.equal(pieceAt(lane, 200, 0), undefined);
  assert.equal(pieceAt(lane, 550, 0)?.offset, 500);
  assert.equal(pieceAt([], 0, 10), undefined);
});

test('copies of one row belong together', () => {
  const [first, copy, other] = pieces('tank/vm', rows);
  assert.ok(sameRow(first!, copy!) && !sameRow(first!, other!) && !sameRow(first!, { ...copy!, journal: true }));
});
