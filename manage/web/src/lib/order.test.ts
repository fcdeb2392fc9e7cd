import assert from 'node:assert/strict';
import { test } from 'node:test';
import { byName } from './order.ts';

const sorted = (names: string[]) => byName(names, (name) => name);

test('numbers in names count as numbers', () => {
  assert.deepEqual(sorted(['disk10', 'disk2', 'disk1']), ['disk1', 'disk2', 'disk10']);
  assert.deepEqual(sorted(['shelf 12', 'shelf 2']), ['shelf 2', 'shelf 12']);
});

test('names that only differ in case have an order too', () => {
  assert.deepEqual(sorted(['tank', 'Tank']), sorted(['Tank', 'tank']));
});
