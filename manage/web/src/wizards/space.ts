// A space as the wizard's form holds it, and as the API takes it.
import type { ApiFailure } from '../lib/api/client.ts';
import type { LayoutKind } from '../lib/api/types.ts';
import type { Problems } from '../lib/form.ts';
import { parseSize } from '../lib/format.ts';
import { nameProblem } from './names.ts';
import type { CreateSpace } from './types.ts';

const KIB = 1024;
const BLOCK = 4 * KIB;
const LEAST_JOURNAL = 32 * KIB ** 2;
const MOST_JOURNAL = 100 * KIB ** 3;
const USUAL_INTERLEAVE = 256 * KIB;

export interface SpaceForm {
  pool: string;
  /** Null until one was typed. */
  name: string | null;
  /** One of `RESILIENCES`. */
  resilience: string;
  size: string;
  thin: boolean;
  /** Empty lets the server choose. */
  columns: string;
  interleave: number;
  /** Empty lets the server choose. */
  journal: string;
  checksums: boolean;
  enclosures: boolean;
}

export interface Resilience {
  value: string;
  layout: LayoutKind;
  copies: number;
  parity: number;
  survives: number;
  text: string;
}

export const RESILIENCES: readonly Resilience[] = [
  {
    value: 'simple',
    layout: 'simple',
    copies: 1,
    parity: 0,
    survives: 0,
    text: 'Striped, one copy: fast, and lost with any disk',
  },
  { value: 'mirror-2', layout: 'mirror', copies: 2, parity: 0, survives: 1, text: 'Two copies; 2 disks or more' },
  { value: 'mirror-3', layout: 'mirror', copies: 3, parity: 0, survives: 2, text: 'Three copies; 3 disks or more' },
  {
    value: 'parity-1',
    layout: 'parity',
    copies: 1,
    parity: 1,
    survives: 1,
    text: 'Most room, slow small writes; 3 disks or more',
  },
  {
    value: 'parity-2',
    layout: 'parity',
    copies: 1,
    parity: 2,
    survives: 2,
    text: 'Much room, slow small writes; 4 disks or more',
  },
];

/** All that a stripe unit can be: powers of two from 4 KiB to 16 MiB. */
export const INTERLEAVES: readonly number[] = Array.from({ length: 13 }, (_, power) => BLOCK * 2 ** power);

function sizeProblem(text: string): string | undefined {
  const size = parseSize(text);
  if (text.trim() === '') return 'Give it a size, for example 4GiB.';
  if (size === null) return 'This is no size; for example 4GiB.';
  return size >= BLOCK && size % BLOCK === 0 ? undefined : 'A size is a multiple of 4 KiB, and at least that.';
}

/** What is wrong at each field, as far as the console can tell. */
export function spaceProblems(form: SpaceForm): Problems {
  const journal = parseSize(form.journal);
  const journalFits = journal !== null && journal >= LEAST_JOURNAL && journal <= MOST_JOURNAL;
  return {
    pool: form.pool === '' ? 'Make a pool first.' : undefined,
    name: nameProblem(form.name ?? ''),
    size: sizeProblem(form.size),
    columns:
      /^\s*(\d{1,3})?\s*$/.test(form.columns) && form.columns.trim() !== '0'
        ? undefined
        : 'This is no number of columns; for example 4.',
    journal:
      form.resilience.startsWith('parity') && form.journal.trim() !== '' && !journalFits
        ? 'A journal has 32 MiB to 100 GiB.'
        : undefined,
  };
}

/** The request of a form. What is as usual is left out, so that the command is short. */
export function requestOf(form: SpaceForm): CreateSpace {
  const { layout, copies, parity } = RESILIENCES.find((one) => one.value === form.resilience) ?? RESILIENCES[1]!;
  const columns = form.columns.trim();
  const journal = parity > 0 && form.journal.trim() !== '' ? parseSize(form.journal) : null;
  return {
    name: `${form.pool}/${form.name ?? ''}`,
    layout,
    ...(layout === 'mirror' ? { copies } : {}),
    ...(layout === 'parity' ? { parity } : {}),
    ...(columns === '' ? {} : { columns: Number(columns) }),
    ...(form.interleave === USUAL_INTERLEAVE ? {} : { interleave_bytes: form.interleave }),
    ...(journal === null ? {} : { journal_bytes: journal }),
    ...(form.checksums ? {} : { integrity: 'none' as const }),
    size_bytes: parseSize(form.size) ?? 0,
    ...(form.thin ? { thin: true } : {}),
    ...(form.enclosures ? { enclosure_aware: true } : {}),
  };
}

/** The field that a refusal of the server is about. */
export function spaceField(failure: Pick<ApiFailure, 'code' | 'message' | 'object'>): string | undefined {
  if (failure.code === 'exists' || failure.object.includes('"')) return 'name';
  if (failure.code === 'no-space') return 'size';
  if (failure.object.startsWith('pool ')) return 'pool';
  const words: readonly (readonly [RegExp, string])[] = [
    [/enclosure/, 'enclosures'],
    [/journal/, 'journal'],
    [/interleave/, 'interleave'],
    [/column/, 'columns'],
    [/size|fit/, 'size'],
  ];
  return words.find(([pattern]) => pattern.test(failure.message))?.[1];
}
