import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inSlots, slotTaken } from './bulk.ts';

const disk = (path: string, enclosure: string | null = null, slot: number | null = null) => ({ path, enclosure, slot });

test('slots are given in natural order', () => {
  const placed = inSlots([disk('/dev/sd10'), disk('/dev/sd2'), disk('/dev/sd1')], 5);
  assert.deepEqual(
    placed.map(({ disk, slot }) => [disk.path, slot]),
    [
      ['/dev/sd1', 5],
      ['/dev/sd2', 6],
      ['/dev/sd10', 7],
    ],
  );
});

test('a slot of another disk is found, one of the selected disks is not', () => {
  const all = [disk('a', 'shelf 1', 1), disk('b', 'shelf 1', 2), disk('c', 'shelf 2', 1)];
  assert.deepEqual(slotTaken(inSlots([all[0]!, all[2]!], 1), all, 'shelf 1'), { slot: 2, path: 'b' });
  assert.equal(slotTaken(inSlots([all[0]!, all[1]!], 1), all, 'shelf 1'), undefined);
  assert.equal(slotTaken(inSlots([all[0]!], 9), all, 'shelf 1'), undefined);
});
