import assert from 'node:assert/strict';
import { test } from 'node:test';
import { exactTime, parsePercents, parseTime, timeText } from './times.ts';

test('times are read as they are written', () => {
  for (const [text, seconds] of [
    ['7d', 604_800],
    ['12 hours', 43_200],
    ['5m', 300],
    ['90 s', 90],
    ['never', 0],
  ] as const) {
    assert.equal(parseTime(text), seconds, text);
  }
  for (const wrong of ['', '7', 'weekly', '-1d', '1.5h']) assert.equal(parseTime(wrong), null, wrong);
});

test('times are written in the largest unit that divides them', () => {
  assert.deepEqual([exactTime(604_800), timeText(604_800)], ['7d', '7 days']);
  assert.deepEqual([exactTime(60), timeText(60)], ['1m', '1 minute']);
  assert.deepEqual([exactTime(61), timeText(61)], ['61s', '61 seconds']);
});

test('percentages are up to eight from 1 to 100', () => {
  assert.deepEqual(parsePercents('70, 85 %'), [70, 85]);
  assert.deepEqual(parsePercents('none'), []);
  for (const wrong of ['', '0', '101', 'x', '1 2 3 4 5 6 7 8 9']) assert.equal(parsePercents(wrong), null, wrong);
});
