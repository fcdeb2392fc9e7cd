// What a pool has room for.
import type { Pool } from './api/types';

/** Bytes that spaces can still take. What lies free on hot spares and journal disks is kept for other ends. */
export function roomOf({ room }: Pick<Pool, 'room'>): number {
  return Math.max(0, room.data_bytes - room.used_bytes);
}
