import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bytes, count, duration, exactSize, latency, parseSize, percent, plural } from './format.ts';

test('sizes read as people say them', () => {
  assert.equal(bytes(0), '0 B');
  assert.equal(bytes(1536), '1.5 KiB');
  assert.equal(bytes(1024 ** 4 - 1), '1 TiB');
  assert.equal(bytes(100 * 1024 ** 4), '100 TiB');
  assert.equal(bytes(20 * 1024), '20 KiB');
  assert.equal(bytes(null), '–');
});

test('sizes for the command line lose nothing', () => {
  for (const size of [0, 1, 4096, 1536 * 1024 ** 2, 3 * 1024 ** 4, 1024 ** 5 + 4096])
    assert.equal(parseSize(exactSize(size)), size);
  assert.equal(exactSize(1536 * 1024 ** 2), '1536MiB');
});

test('sizes are read with their units, and nothing else is', () => {
  assert.equal(parseSize('1.5 TiB'), 1.5 * 1024 ** 4);
  assert.equal(parseSize('500GB'), 500e9);
  assert.equal(parseSize('4096'), 4096);
  for (const wrong of ['', 'x', '4 XB', '-1GiB', '1..5GiB', '0.3B', '99999PiB']) assert.equal(parseSize(wrong), null, wrong);
});

test('figures are rounded where it does no harm', () => {
  assert.equal(count(12_300), '12,300');
  assert.equal(count(1_230_000), '1.23 M');
  assert.equal(latency(850), '850 µs');
  assert.equal(latency(1234), '1.23 ms');
  assert.equal(duration(59), '59 s');
  assert.equal(duration(90), '1 min 30 s');
  assert.equal(duration(3 * 86_400 + 4 * 3600 + 1), '3 d 4 h');
  assert.equal(percent(1, 3), '33 %');
  assert.equal(percent(1, 0), '0 %');
  assert.equal(plural(1, 'disk'), '1 disk');
});
