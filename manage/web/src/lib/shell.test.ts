import assert from 'node:assert/strict';
import { test } from 'node:test';
import { holdfast, option } from './shell.ts';

test('what a shell would take apart is quoted', () => {
  assert.equal(holdfast('disk', 'retire', '/dev/my disk', false, null), "holdfast disk retire '/dev/my disk'");
  assert.equal(holdfast('disk', 'retire', "it's; $HOME"), "holdfast disk retire 'it'\\''s; $HOME'");
  assert.equal(
    holdfast('space', 'grow', 'tank/vm', option('--size', '4GiB'), option('--x', null)),
    'holdfast space grow tank/vm --size 4GiB',
  );
});
