import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compare, filtered, inView, sorted, type Column } from './table.ts';

interface Row {
  name: string;
  size: number | null;
}
const columns: Column<Row>[] = [
  { id: 'name', title: 'Name', value: (row) => row.name },
  { id: 'size', title: 'Size', value: (row) => row.size, text: (row) => `${row.size} GiB` },
];
const rows: Row[] = [
  { name: 'disk10', size: 4 },
  { name: 'disk2', size: null },
  { name: 'Disk1', size: 8 },
];

test('rows match by every word, in any column', () => {
  assert.deepEqual(
    filtered(rows, columns, ' DISK  8 gib ').map((row) => row.name),
    ['Disk1'],
  );
  assert.equal(filtered(rows, columns, '  ').length, 3);
  assert.equal(filtered(rows, columns, 'disk 9').length, 0);
});

test('names sort as people count, and nothing stays at the end', () => {
  const names = (column: string, descending: boolean) => sorted(rows, columns, { column, descending }).map((row) => row.name);
  assert.deepEqual(names('name', false), ['Disk1', 'disk2', 'disk10']);
  assert.deepEqual(names('size', false), ['disk10', 'Disk1', 'disk2']);
  assert.deepEqual(names('size', true), ['Disk1', 'disk10', 'disk2']);
  assert.equal(compare(null, null, true), 0);
});

test('only rows in view are drawn', () => {
  assert.deepEqual(inView(1000, 40, 0, 400, 5), [0, 15]);
  assert.deepEqual(inView(1000, 40, 20_000, 400, 5), [495, 515]);
  assert.deepEqual(inView(3, 40, 20_000, 400, 5), [3, 3]);
  assert.deepEqual(inView(0, 40, 0, 0), [0, 0]);
});
