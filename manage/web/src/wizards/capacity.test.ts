import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dataBytes, estimates } from './capacity.ts';

const GIB = 1024 ** 3;
const near = (value: number, wanted: number) =>
  assert.ok(Math.abs(value - wanted) < wanted / 100, `${value} is not near ${wanted}`);
const usable = (disks: number[]) => estimates(disks).map((estimate) => estimate.usable_bytes);

test('equal disks give their share in each layout', () => {
  const [simple, two, three, single, wide, dual] = usable([1000, 1000, 1000, 1000, 1000, 1000, 1000].map((size) => size * GIB));
  near(simple!, 7000 * GIB);
  near(two!, 3500 * GIB);
  near(three!, (7000 / 3) * GIB);
  // Of 520 bands of a slab, 8 are spare.
  near(single!, (((7000 * GIB * 2) / 3) * 512) / 520);
  near(wide!, (5600 * GIB * 256) / 264);
  near(dual!, (4200 * GIB * 341) / 349);
});

test('single and dual parity are compared at the same columns', () => {
  const parity = (disks: number) =>
    estimates(Array.from({ length: disks }, () => GIB))
      .filter((estimate) => estimate.parity > 0)
      .map((estimate) => [estimate.parity, estimate.columns, estimate.default]);
  assert.deepEqual(parity(3), [
    [1, 3, true],
    [2, 0, true],
  ]);
  assert.deepEqual(parity(6), [
    [1, 3, true],
    [1, 4, false],
    [2, 4, true],
  ]);
});

test('the default columns leave as many disks beside a row as it may lose, where there are enough', () => {
  const columns = (disks: number) =>
    estimates(Array.from({ length: disks }, () => GIB))
      .filter((estimate) => estimate.default)
      .map((estimate) => estimate.columns);
  assert.deepEqual(columns(3), [3, 1, 1, 3, 0]);
  assert.deepEqual(columns(6), [6, 2, 1, 3, 4]);
  assert.deepEqual(columns(12), [8, 5, 3, 3, 7]);
});

test('a mirror cannot use more of a large disk than the others can back', () => {
  near(usable([8000 * GIB, 1000 * GIB, 1000 * GIB])[1]!, 2000 * GIB);
});

test('a layout that takes more disks than there are gives nothing', () => {
  const of = estimates([1000 * GIB, 1000 * GIB]);
  assert.deepEqual(
    of.map((estimate) => estimate.columns),
    [2, 1, 0, 0, 0],
  );
  assert.ok(of.slice(2).every((estimate) => estimate.usable_bytes === 0));
});

test('what a pool reserves is between 4 and 256 MiB of a disk', () => {
  // The second label takes the last unit.
  const unit = 64 * 1024;
  assert.equal(dataBytes(GIB), GIB - 4 * 1024 ** 2 - unit);
  assert.equal(dataBytes(4096 * GIB), 4096 * GIB - 256 * 1024 ** 2 - unit);
  assert.equal(dataBytes(0), 0);
});
