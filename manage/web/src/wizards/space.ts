// A space as the wizard's form holds it, and as the API takes it.
import type { ApiFailure } from '../lib/api/client.ts';
import type { LayoutKind } from '../lib/api/types.ts';
import { fieldAt, type Problems } from '../lib/form.ts';
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
    text: 'One copy, striped: fast; any lost disk loses the data',
  },
  { value: 'mirror-2', layout: 'mirror', copies: 2, parity: 0, survives: 1, text: 'Two copies; at least 2 disks' },
  { value: 'mirror-3', layout: 'mirror', copies: 3, parity: 0, survives: 2, text: 'Three copies; at least 3 disks' },
  {
    value: 'parity-1',
    layout: 'parity',
    copies: 1,
    parity: 1,
    survives: 1,
    text: 'Most capacity, slower small writes; at least 3 disks',
  },
  {
    value: 'parity-2',
    layout: 'parity',
    copies: 1,
    parity: 2,
    survives: 2,
    text: 'More capacity than a mirror, slower small writes; at least 4 disks',
  },
];

/** All that a stripe unit can be: powers of two from 4 KiB to 16 MiB. */
export const INTERLEAVES: readonly number[] = Array.from({ length: 13 }, (_, power) => BLOCK * 2 ** power);

function sizeProblem(text: string): string | undefined {
  const size = parseSize(text);
  if (text.trim() === '') return 'Enter a size, for example 4GiB.';
  if (size === null) return 'This is not a size; for example 4GiB.';
  return size >= BLOCK && size % BLOCK === 0 ? undefined : 'The size must be a multiple of 4 KiB.';
}

/** What is wrong at each field, as far as the console can tell. */
export function spaceProblems(form: SpaceForm): Problems {
  const journal = parseSize(form.journal);
  const journalFits = journal !== null && journal >= LEAST_JOURNAL && journal <= MOST_JOURNAL;
  return {
    pool: form.pool === '' ? 'Create a pool first.' : undefined,
    name: nameProblem(form.name ?? ''),
    size: sizeProblem(form.size),
    columns:
      /^\s*(\d{1,3})?\s*$/.test(form.columns) && form.columns.trim() !== '0'
        ? undefined
        : 'Enter a number of columns; for example 4.',
    journal:
      form.resilience.startsWith('parity') && form.journal.trim() !== '' && !journalFits
        ? 'Enter a size from 32 MiB to 100 GiB.'
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
export function spaceField(failure: Pick<ApiFailure, 'code' | 'field'>): string | undefined {
  // A space of this name with another layout or size is there: that is settled by another name.
  if (failure.code === 'exists') return 'name';
  // Its name begins with that of its pool, which is chosen.
  if (failure.code === 'not-found' && failure.field === 'name') return 'pool';
  return fieldAt(failure, {
    name: 'name',
    columns: 'columns',
    interleave_bytes: 'interleave',
    journal_bytes: 'journal',
    enclosure_aware: 'enclosures',
    size_bytes: 'size',
  });
}
