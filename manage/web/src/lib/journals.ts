// Change journals of volumes: their sizes, their reasons in words, and their records read as far as somebody looks.
import type { JournalEntries, JournalEntry, JournalReason } from './api/types';
import { exactSize, parseSize } from './format.ts';

const REASONS: Record<JournalReason, string> = {
  'data-overwrite': 'data written over',
  'data-extend': 'became longer',
  'data-truncation': 'became shorter',
  'named-data-overwrite': 'stream written over',
  'named-data-extend': 'stream became longer',
  'named-data-truncation': 'stream became shorter',
  'file-create': 'created',
  'file-delete': 'removed',
  'ea-change': 'extended attributes',
  'security-change': 'owner or permissions',
  'rename-old-name': 'name that it had',
  'rename-new-name': 'name that it has',
  'basic-info-change': 'times or attributes',
  'hard-link-change': 'further name',
  'reparse-point-change': 'where it leads',
  'stream-change': 'streams',
  'integrity-change': 'integrity',
  close: 'closed',
};

/** `created, closed`: why a record was written. */
export function reasonWords({ new: reasons }: Pick<JournalEntry, 'new'>): string {
  return reasons.map((reason) => REASONS[reason]).join(', ');
}

/** Where the name of a record is; the name alone if its directory is no more. */
export function placeOf({ directory, name, is_directory: is }: JournalEntry): string {
  const path = typeof directory === 'string' ? `${directory.replace(/\/$/, '')}/${name}` : name;
  return is ? `${path}/` : path;
}

const LEAST_BYTES = 64 * 1024;
const MOST_BYTES = 4 * 1024 ** 3;
const USUAL_BYTES = 64 * 1024 ** 2;
/** The part of its volume that a journal takes at most. */
const PART = 8;

/** The largest journal that a volume of a size can have, in a round figure. */
export function mostBytes(volumeBytes: number): number {
  const most = Math.min(MOST_BYTES, Math.floor(volumeBytes / PART));
  return most - (most % LEAST_BYTES);
}

/** The size of a journal that nobody chose. */
export function usualBytes(volumeBytes: number): number {
  return Math.min(USUAL_BYTES, mostBytes(volumeBytes));
}

/** What is wrong with a size. */
export function journalProblem(text: string, volumeBytes: number): string | undefined {
  const [size, most] = [parseSize(text), mostBytes(volumeBytes)];
  if (size !== null && size >= LEAST_BYTES && size <= most) return undefined;
  return `Enter a size from ${exactSize(LEAST_BYTES)} to ${exactSize(most)}; for example 1MiB.`;
}

/** Records that one answer has at most. */
export const PAGE = 1000;
/** Pages that are kept, of those that were read one after another. */
const MOST_PAGES = 20;

interface Page {
  /** The position from which it was read: one that the journal gave, for there is a record or the end at no other. */
  start: number;
  entries: readonly JournalEntry[];
}

/** Asks for records from a position on, or from the first one that there is. */
export type Ask = (from: number | undefined) => Promise<JournalEntries>;

/** A reader that goes to the end of a journal, and back by the pages that it came by. A journal is read forwards only. */
export class JournalReader {
  /** Whether records are gone that stood between others, or that were to be read. */
  gap = false;
  readonly #ask: Ask;
  #pages: Page[] = [];
  /** Where the pages before those that are kept begin. */
  #before: number[] = [];
  #end: number | undefined;

  constructor(ask: Ask) {
    this.#ask = ask;
  }

  /** The records that are kept, the newest first. */
  get entries(): JournalEntry[] {
    return this.#pages.flatMap((page) => page.entries).reverse();
  }

  /** Where it read to. */
  get position(): number {
    return this.#end ?? 0;
  }

  get hasOlder(): boolean {
    return this.#before.length > 0;
  }

  /** Reads on to the end, or until it is to go no further; answers how many records came. `told` hears of each page. */
  async newer(told: () => boolean = () => true): Promise<number> {
    for (let came = 0; ;) {
      const { entries, next, gap } = await this.#ask(this.#end);
      if (gap && this.#end !== undefined) this.gap = true;
      this.#end = next;
      came += entries.length;
      this.#append(entries);
      if (entries.length === 0 || !told()) return came;
    }
  }

  #append(entries: readonly JournalEntry[]): void {
    const [last, first] = [this.#pages.at(-1), entries[0]];
    if (first === undefined) return;
    if (last && last.entries.length + entries.length <= PAGE) last.entries = [...last.entries, ...entries];
    else this.#pages.push({ start: first.usn, entries });
    while (this.#pages.length > MOST_PAGES) this.#before.push(this.#pages.shift()?.start ?? 0);
  }

  /** Reads the page before those that are kept; what was read last is given up for it, where there is too much. */
  async older(): Promise<void> {
    const [start, until] = [this.#before.pop(), this.#pages[0]?.start];
    if (start === undefined || until === undefined) return;
    try {
      const { entries, gap } = await this.#ask(start);
      // The journal was cut meanwhile: what stood before is gone.
      if (gap) this.#before = [];
      const wanted = entries.filter((entry) => entry.usn < until);
      if (wanted[0]) this.#pages.unshift({ start: wanted[0].usn, entries: wanted });
    } catch (thrown) {
      this.#before.push(start);
      throw thrown;
    }
    if (this.#pages.length > MOST_PAGES) this.#end = this.#pages.pop()?.start;
  }
}
