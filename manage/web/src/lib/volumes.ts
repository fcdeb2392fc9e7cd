// What a volume holds and where it is, in figures and words.
import type { ModeChange, Volume } from './api/types';

/** Bytes that cannot be written any more; null while the volume is not open. */
export function usedOf({ size_bytes: size, free_bytes: free }: Volume): number | null {
  return typeof size === 'number' && typeof free === 'number' ? Math.max(0, size - free) : null;
}

/** `/srv/files`, and whether it is not mounted there now. */
export function mountWords({ mount }: Volume): string {
  if (!mount) return 'Not mounted';
  return mount.mounted ? mount.directory : `${mount.directory} (not now)`;
}

/** What a change of the mode of a file that has a descriptor does. */
export const modeChangeWords: Record<ModeChange, string> = {
  mask: 'Limits what the descriptor grants',
  discard: 'Takes the descriptor away',
  refuse: 'Fails',
};
