import assert from 'node:assert/strict';
import { test } from 'node:test';
import { changes } from './diff.ts';

test('what differs is listed with its way', () => {
  assert.deepEqual(changes({ name: 'a', room: { used: 1, free: 2 } }, { name: 'a', room: { used: 5, free: 2 }, more: [1] }), [
    { field: 'room.used', before: '1', after: '5' },
    { field: 'more', before: undefined, after: '[1]' },
  ]);
});

test('an object that was made or removed has all of its fields on one side', () => {
  assert.deepEqual(changes(null, { name: 'a' }), [{ field: 'name', before: undefined, after: 'a' }]);
  assert.deepEqual(changes({ name: 'a' }, null), [{ field: 'name', before: 'a', after: undefined }]);
  assert.deepEqual(changes(null, null), []);
});
