// What the pages show of disks.
import type { Disk } from './api/types';

/** What names a disk for sure: its id in its pool, for the path of one that is away may be another's; else its path. */
export function diskArgument(disk: Pick<Disk, 'id' | 'path' | 'state'>): string {
  return disk.state === 'online' ? disk.path : (disk.id ?? disk.path);
}

export function diskHref(disk: Pick<Disk, 'id' | 'path'>): string {
  return `/disks/${encodeURIComponent(disk.id ?? disk.path)}`;
}

/** Digits of a serial number that a label on a tray has room for. */
const SERIAL_END = 6;

/** The last digits of a serial number, which tell disks apart at a glance. */
export function serialEnd(serial: string): string {
  return serial.slice(-SERIAL_END);
}

/** Bytes of a disk that spaces use. */
export function usedBytes(disk: Pick<Disk, 'usable_bytes' | 'free_bytes'>): number {
  return (disk.usable_bytes ?? 0) - (disk.free_bytes ?? 0);
}

/** The disk that a disk is best replaced with: an empty one of no pool that is as large, the smallest of these. */
export function replacementOf(disk: Disk, others: readonly Disk[]): Disk | undefined {
  const fitting = others.filter((one) => !one.pool && one.can_pool && one.size_bytes >= disk.size_bytes);
  return fitting.sort((one, other) => one.size_bytes - other.size_bytes)[0];
}
