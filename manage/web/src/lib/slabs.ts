// Where slabs lie, as a picture needs it: a lane for each disk, slabs on it by their place, found again under the pointer.
import type { SpaceRow } from './api/types';

/** A slab with all that a picture or a table says of it. */
export interface Piece {
  disk: string;
  path: string;
  offset: number;
  length: number;
  /** `POOL/SPACE`. */
  space: string;
  chunk: number;
  journal: boolean;
  /** Where in the space, or in its journal, its row begins, and how much of it that is. */
  at: number;
  span: number;
  column: number;
  copy: number;
  stale: boolean;
}

export function pieces(space: string, rows: readonly SpaceRow[]): Piece[] {
  return rows.flatMap((row) =>
    row.slabs.map((slab) => ({
      disk: slab.disk,
      path: slab.path,
      offset: slab.offset_bytes,
      length: slab.length_bytes,
      space,
      chunk: row.chunk,
      journal: row.journal,
      at: row.offset_bytes,
      span: row.length_bytes,
      column: slab.column,
      copy: slab.copy,
      stale: slab.stale,
    })),
  );
}

/** The pieces of each disk, by their place on it. */
export function byDisk(all: readonly Piece[]): Map<string, Piece[]> {
  const lanes = new Map<string, Piece[]>();
  for (const piece of all) {
    const lane = lanes.get(piece.disk);
    if (lane) lane.push(piece);
    else lanes.set(piece.disk, [piece]);
  }
  for (const lane of lanes.values()) lane.sort((a, b) => a.offset - b.offset);
  return lanes;
}

/** The piece that holds this byte of a disk; of none does, the next one within `reach` bytes of it. */
export function pieceAt(lane: readonly Piece[], byte: number, reach: number): Piece | undefined {
  let low = 0;
  let high = lane.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (lane[middle]!.offset <= byte) low = middle + 1;
    else high = middle;
  }
  const before = lane[low - 1];
  if (before && byte < before.offset + Math.max(before.length, reach)) return before;
  const after = lane[low];
  return after && after.offset - byte <= reach ? after : undefined;
}

/** Whether two pieces are of one row: what is lost with one may be made from the others. */
export function sameRow(a: Piece, b: Piece): boolean {
  return a.space === b.space && a.chunk === b.chunk && a.journal === b.journal;
}
