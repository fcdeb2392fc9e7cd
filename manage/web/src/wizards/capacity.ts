// What each layout would give on disks that are in no pool yet.
//
// A row of n slabs takes n different disks. So r rows' worth of slabs fit exactly if the disks, none of them counted for more than r,
// hold n·r: the most of which is found by bisection. The pool itself allots in whole units and keeps a little for its maps, so the
// figures here are about right, and those of a pool that is there are the exact ones.
import type { LayoutKind } from '../lib/api/types';

const UNIT = 1024 ** 2;
const LEAST_RESERVED = 4 * UNIT;
const MOST_RESERVED = 256 * UNIT;
const MOST_COLUMNS = 256;
const SIMPLE_COLUMNS = 8;
const DUAL_PARITY_COLUMNS = 7;
/** Of 4 KiB, what their checksums take. */
const CHECKSUM_SHARE = 1 / 1024;

export interface Estimate {
  layout: LayoutKind;
  copies: number;
  parity: number;
  /** Stripe units side by side; 0 where there are too few disks. */
  columns: number;
  /** Whether a space gets these columns by default. */
  default: boolean;
  /** Disks that it takes at least. */
  least_disks: number;
  /** Disks that may fail at once without loss. */
  survives: number;
  usable_bytes: number;
}

/** Bytes of a disk that a pool can give to spaces. */
export function dataBytes(diskBytes: number): number {
  const reserved = Math.min(MOST_RESERVED, Math.max(LEAST_RESERVED, diskBytes / 256));
  return Math.max(0, Math.floor((diskBytes - reserved) / UNIT) * UNIT);
}

/** The most bytes of each slab position where every row takes `width` different disks. */
function rowBytes(disks: readonly number[], width: number): number {
  let [fits, above] = [0, disks.reduce((sum, bytes) => sum + bytes, 0) / width + UNIT];
  while (above - fits > UNIT / 4) {
    const middle = (fits + above) / 2;
    const held = disks.reduce((sum, bytes) => sum + Math.min(bytes, middle), 0);
    if (held >= width * middle) fits = middle;
    else above = middle;
  }
  return fits;
}

/** The columns of a space by default: as many disks as may be lost stay beside a row where there are enough, so that it can be rebuilt. */
function columnsOf(layout: LayoutKind, copies: number, parity: number, disks: number): number {
  const least = parity > 0 ? parity + 2 : 1;
  if (disks < least * copies) return 0;
  const survives = copies - 1 + parity;
  const most = Math.min(MOST_COLUMNS, Math.floor(Math.max(0, disks - survives) / copies));
  if (layout === 'simple') return Math.min(most, SIMPLE_COLUMNS);
  if (layout === 'mirror') return Math.max(least, most);
  return parity === 2 ? Math.max(least, Math.min(most, DUAL_PARITY_COLUMNS)) : least;
}

/**
 * What disks of these sizes would give in each layout, with the columns that a space gets by default; single parity also with those of
 * dual parity, so that the two can be compared.
 */
export function estimates(diskBytes: readonly number[]): Estimate[] {
  const disks = diskBytes.map(dataBytes).filter((bytes) => bytes > 0);
  const kinds: [LayoutKind, number, number, number][] = [
    ['simple', 1, 0, 1],
    ['mirror', 2, 0, 2],
    ['mirror', 3, 0, 3],
    ['parity', 1, 1, 3],
    ['parity', 1, 2, 4],
  ];
  const of = ([layout, copies, parity, least]: (typeof kinds)[number], wanted: number | null): Estimate => {
    const columns = wanted ?? columnsOf(layout, copies, parity, disks.length);
    const usable = columns === 0 ? 0 : rowBytes(disks, columns * copies) * (columns - parity) * (1 - CHECKSUM_SHARE);
    const survives = layout === 'mirror' ? copies - 1 : parity;
    const bytes = Math.floor(usable);
    return { layout, copies, parity, columns, default: wanted === null, least_disks: least, survives, usable_bytes: bytes };
  };
  const dual = columnsOf('parity', 1, 2, disks.length);
  return kinds.flatMap((kind) => {
    const usual = of(kind, null);
    const compared = usual.parity === 1 && dual > 0 && dual !== usual.columns;
    return compared ? [usual, of(kind, dual)] : [usual];
  });
}
