// What each layout would give on disks that are in no pool yet.
//
// A row of n slabs takes n different disks. So r rows fit exactly if the disks, none of them counted for more than r slabs, hold n·r: the
// most of which is found by bisection. How large slabs are, and what heads, checksums, spare places and journals take of them, is as the
// pool has it on disks like these; in pools so large that rows become larger still, a little more fits than these figures say.
import type { LayoutKind } from '../lib/api/types';

const KIB = 1024;
const MIB = 1024 ** 2;
const GIB = 1024 ** 3;
/** In which disks are divided. */
const UNIT = 64 * KIB;
const BLOCK = 4 * KIB;
const LEAST_RESERVED = 4 * MIB;
const MOST_RESERVED = 256 * MIB;
const MOST_COLUMNS = 256;
const SIMPLE_COLUMNS = 8;
const DUAL_PARITY_COLUMNS = 7;
/** The interleave of a space by default, which bands of parity have, too. */
const BAND = 256 * KIB;
const LEAST_BANDS = 4;
const LEAST_SLAB = MIB;
const MOST_SLAB = 256 * MIB;
const MOST_CHUNK = 256 * MIB;
const SLABS_PER_DISK = 64;
const SUMS_COVER = 256 * KIB;
const SUMS_SECTOR = 512;
const MAP_COVERS = 64 * MIB;
const MAP_BLOCKS = 16_384;
const JOURNAL = 32 * MIB;
const FAST_JOURNAL = GIB;
const LEAST_JOURNAL = MIB;
const JOURNAL_COLUMNS = 8;

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
  const reserved = Math.min(MOST_RESERVED, Math.max(LEAST_RESERVED, down(diskBytes / 256, UNIT)));
  return Math.max(0, down(diskBytes - BLOCK - reserved, UNIT));
}

const down = (bytes: number, step: number) => Math.floor(bytes / step) * step;
const up = (bytes: number, step: number) => Math.ceil(bytes / step) * step;
const powerBelow = (value: number) => 2 ** Math.floor(Math.log2(Math.max(1, value)));

/** The places for bands that a slab has besides those with data. */
function spareBands(data: number): number {
  return data < 64 ? 2 : data < 256 ? 4 : 8;
}

/** The most bands with data of a slab that has so many places. */
function bandsOf(places: number): number {
  return Math.max(0, ...[2, 4, 8].map((spare) => places - spare).filter((data) => data + spareBands(data) <= places));
}

interface Row {
  /** Bytes of data in a row. */
  chunk: number;
  /** Bytes of each of its slabs on a disk, with head, checksums and spare places. */
  slab: number;
}

/** The rows of a new space, where the smallest disk has so many bytes for data. */
function rowOf(smallest: number, dataColumns: number, parity: boolean): Row {
  const wanted = Math.min(MOST_SLAB, Math.max(LEAST_SLAB, powerBelow(smallest / SLABS_PER_DISK)));
  let [held, data, maps] = [0, 0, 0];
  if (parity) {
    const least = (LEAST_BANDS + spareBands(LEAST_BANDS)) * BAND <= smallest / 8 ? LEAST_BANDS : 1;
    const most = Math.max(1, Math.floor(MOST_CHUNK / (dataColumns * BAND)));
    const bands = Math.min(Math.max(bandsOf(wanted / BAND), least), most);
    [held, data] = [bands * BAND, (bands + spareBands(bands)) * BAND];
    maps = Math.ceil(bands / Math.max(1, Math.floor(MAP_BLOCKS / Math.max(1, (dataColumns * BAND) / BLOCK))));
  } else {
    held = data = up(Math.max(LEAST_SLAB, Math.min(wanted, MOST_CHUNK / dataColumns)), BAND);
    maps = Math.ceil(data / MAP_COVERS);
  }
  let after = data;
  const sums = () => up(Math.ceil(after / SUMS_COVER) * SUMS_SECTOR, UNIT);
  while (after - sums() < data) after = data + sums();
  const head = Math.max(UNIT, up(BLOCK * (1 + 2 * maps), UNIT));
  return { chunk: held * dataColumns, slab: head + after };
}

/** The most rows of `width` slabs on disks with room for so many slabs. */
function rowsOf(slabs: readonly number[], width: number): number {
  let [fits, above] = [0, Math.floor(slabs.reduce((sum, one) => sum + one, 0) / width) + 1];
  while (fits + 1 < above) {
    const middle = fits + Math.floor((above - fits) / 2);
    const held = slabs.reduce((sum, one) => sum + Math.min(one, middle), 0);
    if (held >= width * middle) fits = middle;
    else above = middle;
  }
  return fits;
}

/** What the journal of a parity space takes of each disk by default, where all of them together would hold so many bytes of data. */
function journalOf(disks: readonly number[], copies: number, bytes: number, fast: boolean): number {
  const most = fast ? FAST_JOURNAL : JOURNAL;
  const usual = Math.min(most, Math.max(LEAST_JOURNAL, powerBelow(bytes / 8)));
  const columns = Math.max(1, Math.min(JOURNAL_COLUMNS, Math.floor(disks.length / copies)));
  const all = disks.reduce((sum, one) => sum + one, 0);
  const part = Math.min((Math.min(...disks) * columns) / 16, all / 16 / copies);
  return (Math.max(LEAST_JOURNAL, Math.min(usual, part)) * copies) / disks.length;
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
 * dual parity, so that the two can be compared. Journals are larger where some of the disks are `fast`.
 */
export function estimates(diskBytes: readonly number[], fast = false): Estimate[] {
  const disks = diskBytes.map(dataBytes).filter((bytes) => bytes > 0);
  const kinds: [LayoutKind, number, number, number][] = [
    ['simple', 1, 0, 1],
    ['mirror', 2, 0, 2],
    ['mirror', 3, 0, 3],
    ['parity', 1, 1, 3],
    ['parity', 1, 2, 4],
  ];
  function usableOf(width: number, dataColumns: number, parity: number): number {
    const row = rowOf(Math.min(...disks), dataColumns, parity > 0);
    const held = (taken: number) =>
      rowsOf(
        disks.map((bytes) => Math.floor((bytes - taken) / row.slab)),
        width,
      ) * row.chunk;
    return parity === 0 ? held(0) : held(journalOf(disks, parity + 1, held(0), fast));
  }
  const of = ([layout, copies, parity, least]: (typeof kinds)[number], wanted: number | null): Estimate => {
    const columns = wanted ?? columnsOf(layout, copies, parity, disks.length);
    const bytes = columns === 0 ? 0 : usableOf(columns * copies, columns - parity, parity);
    const survives = layout === 'mirror' ? copies - 1 : parity;
    return { layout, copies, parity, columns, default: wanted === null, least_disks: least, survives, usable_bytes: bytes };
  };
  const dual = columnsOf('parity', 1, 2, disks.length);
  return kinds.flatMap((kind) => {
    const usual = of(kind, null);
    const compared = usual.parity === 1 && dual > 0 && dual !== usual.columns;
    return compared ? [usual, of(kind, dual)] : [usual];
  });
}
