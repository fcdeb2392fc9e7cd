// Sizes and words of change journals, and a reader that goes forwards and back over a journal that grows and is cut.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { JournalEntry } from './api/types';
import { journalProblem, JournalReader, mostBytes, PAGE, placeOf, reasonWords, usualBytes } from './journals.ts';

const MIB = 1024 ** 2;

const entry = (usn: number, more: Partial<JournalEntry> = {}): JournalEntry => ({
  usn,
  file: 70,
  generation: 1,
  parent: 1,
  directory: '/',
  name: `file${usn}`,
  is_directory: false,
  reasons: ['close'],
  new: ['close'],
  time: '2026-11-26T06:00:00.000Z',
  ...more,
});

/** A journal whose records are 80 bytes apart, as the server answers of it: a position of no record is not asked for. */
class Journal {
  first = 8;
  next = 8;
  asked: (number | undefined)[] = [];

  write(records: number) {
    this.next += 80 * records;
  }

  ask = async (from: number | undefined) => {
    this.asked.push(from);
    const gap = from !== undefined && from < this.first;
    const start = Math.max(from ?? 0, this.first);
    assert.equal((start - 8) % 80, 0, 'a position that the journal did not give');
    const entries = [];
    let at = start;
    for (; at < this.next && entries.length < PAGE; at += 80) entries.push(entry(at));
    return { id: '17957030327607123', entries, next: at, gap };
  };
}

const usns = (reader: JournalReader) => reader.entries.map((one) => one.usn);
const positions = (from: number, records: number) => Array.from({ length: records }, (_, at) => from + 80 * at).reverse();

test('it reads to the end, the newest first, and on from there', async () => {
  const journal = new Journal();
  const reader = new JournalReader(journal.ask);
  assert.equal(await reader.newer(), 0);
  assert.deepEqual(reader.entries, []);
  journal.write(3);
  assert.equal(await reader.newer(), 3);
  journal.write(PAGE + 7);
  assert.equal(await reader.newer(), PAGE + 7);
  assert.deepEqual(usns(reader), positions(8, PAGE + 10));
  assert.deepEqual([reader.gap, reader.hasOlder, reader.position], [false, false, journal.next]);
});

test('it keeps so many pages, and goes back by those that it gave up', async () => {
  const journal = new Journal();
  journal.write(25 * PAGE);
  const reader = new JournalReader(journal.ask);
  assert.equal(await reader.newer(), 25 * PAGE);
  assert.deepEqual(usns(reader), positions(8 + 80 * 5 * PAGE, 20 * PAGE));
  assert.ok(reader.hasOlder);
  for (let page = 0; page < 5; page += 1) await reader.older();
  assert.deepEqual(usns(reader), positions(8, 20 * PAGE));
  assert.ok(!reader.hasOlder);
  assert.equal(await reader.newer(), 5 * PAGE, 'what it gave up is read again');
  assert.deepEqual(usns(reader), positions(8 + 80 * 5 * PAGE, 20 * PAGE));
});

test('what it reads again reaches no further than where it goes on', async () => {
  const journal = new Journal();
  const reader = new JournalReader(journal.ask);
  for (let time = 0; time < 22; time += 1) {
    journal.write(600);
    await reader.newer();
  }
  await reader.older();
  await reader.older();
  assert.deepEqual(usns(reader), positions(8, 20 * 600));
});

test('it says that records in between are gone, and offers none that were cut', async () => {
  const journal = new Journal();
  journal.write(22 * PAGE);
  const reader = new JournalReader(journal.ask);
  await reader.newer();
  journal.first = 8 + 80 * (PAGE + 500);
  await reader.older();
  assert.equal(usns(reader).at(-1), journal.first);
  assert.deepEqual([reader.gap, reader.hasOlder], [false, false]);
  journal.write(30 * PAGE);
  journal.first = journal.next - 80;
  await reader.newer();
  assert.ok(reader.gap);
  assert.equal(usns(reader)[0], journal.first);
});

test('it stops where it is told to, and goes on from there', async () => {
  const journal = new Journal();
  journal.write(5 * PAGE);
  const reader = new JournalReader(journal.ask);
  assert.equal(await reader.newer(() => false), PAGE);
  assert.equal(await reader.newer(), 4 * PAGE);
});

test('a refusal loses nothing of what was read', async () => {
  const journal = new Journal();
  journal.write(21 * PAGE);
  let refuses = false;
  const reader = new JournalReader((from) => (refuses ? Promise.reject(new Error('away')) : journal.ask(from)));
  await reader.newer();
  refuses = true;
  await assert.rejects(reader.older());
  assert.ok(reader.hasOlder);
  refuses = false;
  await reader.older();
  assert.equal(usns(reader).at(-1), 8);
});

test('records say why and where', () => {
  assert.equal(reasonWords({ new: ['file-create', 'close'] }), 'created, closed');
  assert.equal(placeOf(entry(8)), '/file8');
  assert.equal(placeOf(entry(8, { directory: '/a/b', is_directory: true })), '/a/b/file8/');
  assert.equal(placeOf(entry(8, { directory: null })), 'file8');
});

test('a journal has 64 KiB at least, and no more than an eighth of its volume', () => {
  assert.equal(journalProblem('64KiB', 96 * MIB), undefined);
  assert.equal(journalProblem('12MiB', 96 * MIB), undefined);
  assert.match(journalProblem('63KiB', 96 * MIB) ?? '', /from 64KiB to 12MiB/);
  assert.match(journalProblem('13MiB', 96 * MIB) ?? '', /from 64KiB to 12MiB/);
  assert.match(journalProblem('', 96 * MIB) ?? '', /Enter a size/);
  assert.equal(mostBytes(1024 ** 4), 4 * 1024 ** 3);
  assert.equal(mostBytes(96 * MIB + 4096), 12 * MIB);
  assert.deepEqual([usualBytes(96 * MIB), usualBytes(1024 ** 4)], [12 * MIB, 64 * MIB]);
});
