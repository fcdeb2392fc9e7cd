// One change for several disks: which slot each gets, and what became of each.
import type { Disk } from './api/types';
import { byName } from './order.ts';

/** Disks in natural order of their paths, with slots from `first` upward. */
export function inSlots<D extends Pick<Disk, 'path'>>(disks: readonly D[], first: number): { disk: D; slot: number }[] {
  return byName(disks, (disk) => disk.path).map((disk, at) => ({ disk, slot: first + at }));
}

/** A slot that two disks would have, one of which is not among those that are set; nothing if there is none. */
export function slotTaken(
  placed: readonly { disk: Pick<Disk, 'path'>; slot: number }[],
  all: readonly Pick<Disk, 'path' | 'enclosure' | 'slot'>[],
  enclosure: string,
): { slot: number; path: string } | undefined {
  const moving = new Set(placed.map(({ disk }) => disk.path));
  const wanted = new Set(placed.map(({ slot }) => slot));
  const other = all.find(
    (disk) => disk.enclosure === enclosure && typeof disk.slot === 'number' && wanted.has(disk.slot) && !moving.has(disk.path),
  );
  return other && { slot: other.slot!, path: other.path };
}
