// The words for states and layouts, and the tone in which each is shown.
import type { Disk, Health, Job, LayoutKind, ObjectRef, Pool, Space } from './api/types';
import { bytes, percent } from './format.ts';

export type Tone = 'ok' | 'info' | 'warning' | 'error' | 'muted';

export interface Word {
  text: string;
  tone: Tone;
}

const HEALTH: Record<Health, Word> = {
  healthy: { text: 'Healthy', tone: 'ok' },
  warning: { text: 'Warning', tone: 'warning' },
  unhealthy: { text: 'Unhealthy', tone: 'error' },
};

export function healthWord(health: Health): Word {
  return HEALTH[health];
}

/** The worst first. */
export function healthRank(health: Health): number {
  return { unhealthy: 0, warning: 1, healthy: 2 }[health];
}

/** A disk's state, or its health where it is in service. */
export function diskWord(disk: Disk): Word {
  if (disk.state === 'missing') return { text: 'Missing', tone: 'error' };
  if (disk.state === 'failed') return { text: 'Failed', tone: 'error' };
  if (disk.pool === null || disk.pool === undefined) {
    return disk.can_pool ? { text: 'Available', tone: 'info' } : { text: 'Unavailable', tone: 'muted' };
  }
  return healthWord(disk.health);
}

export function poolWord(state: Pool['state']): Word {
  const words: Record<Pool['state'], Word> = {
    ok: { text: 'OK', tone: 'ok' },
    degraded: { text: 'Degraded', tone: 'warning' },
    'read-only': { text: 'Read-only', tone: 'error' },
    offline: { text: 'Offline', tone: 'error' },
  };
  return words[state];
}

export function spaceWord(state: Space['state']): Word {
  const words: Record<Space['state'], Word> = {
    ok: { text: 'OK', tone: 'ok' },
    resyncing: { text: 'Resyncing', tone: 'info' },
    degraded: { text: 'Degraded', tone: 'warning' },
    failed: { text: 'Failed', tone: 'error' },
  };
  return words[state];
}

export function jobWord(state: Job['state']): Word {
  const words: Record<Job['state'], Word> = {
    queued: { text: 'Queued', tone: 'muted' },
    running: { text: 'Running', tone: 'info' },
    paused: { text: 'Paused', tone: 'warning' },
    done: { text: 'Done', tone: 'ok' },
    failed: { text: 'Failed', tone: 'error' },
    cancelled: { text: 'Cancelled', tone: 'muted' },
  };
  return words[state];
}

const JOBS: Record<Job['kind'], string> = {
  scrub: 'Scrub',
  convert: 'Convert',
  repair: 'Repair',
  evacuate: 'Evacuate',
  rebalance: 'Rebalance',
  upgrade: 'Upgrade',
  replace: 'Replace',
  scan: 'Scan',
  spotfix: 'Spotfix',
  'spotfix-offline': 'Spotfix offline',
  salvage: 'Salvage',
  shrink: 'Shrink',
  quota: 'Count quotas of',
  trim: 'Trim',
  reclaim: 'Give back snapshots of',
  restore: 'Restore files of',
  inherit: 'Hand on permissions of',
  integrity: 'Set integrity of',
  'scrub-files': 'Scrub files of',
  gather: 'Gather files of',
};

export function jobKind(kind: Job['kind']): string {
  return JOBS[kind];
}

/** How far a job is: of how much is not known of each from its beginning on. */
export function jobProgress({ done_bytes, total_bytes }: Job): string {
  if (total_bytes === 0) return `${bytes(done_bytes)} done`;
  return `${percent(done_bytes, total_bytes)}: ${bytes(done_bytes)} of ${bytes(total_bytes)}`;
}

/** What stands before the object of a job where the kind is a title: `Scrub of`, `Count quotas of`. */
export function jobKindOf(kind: Job['kind']): string {
  return JOBS[kind].endsWith(' of') ? JOBS[kind] : `${JOBS[kind]} of`;
}

/** `Two-way mirror`, `Single parity`, … */
export function layoutName(layout: LayoutKind, copies: number, parity: number): string {
  if (layout === 'simple') return 'Simple';
  if (layout === 'mirror') return copies === 3 ? 'Three-way mirror' : 'Two-way mirror';
  return parity === 2 ? 'Dual parity' : 'Single parity';
}

/** How many disks may fail at once without loss. */
export function survives(layout: LayoutKind, copies: number, parity: number): number {
  return layout === 'simple' ? 0 : layout === 'mirror' ? copies - 1 : parity;
}

/** `no lost disk`, `1 lost disk`, `2 lost disks`. */
export function survivesWords(disks: number): string {
  return disks === 0 ? 'no lost disk' : disks === 1 ? '1 lost disk' : `${disks} lost disks`;
}

/** What a space survives now: `1 lost disk, or an enclosure`. */
export function protectionWords({ held_losses, held_enclosures }: Space['protection']): string {
  return `${survivesWords(held_losses)}${held_enclosures ? ', or an enclosure' : ''}`;
}

const USAGES: Record<NonNullable<Disk['usage']>, string> = {
  auto: 'Auto-select',
  manual: 'Manual-select',
  'hot-spare': 'Hot spare',
  journal: 'Journal',
  retired: 'Retired',
};

export function usageName(usage: Disk['usage'] | null): string {
  return usage ? USAGES[usage] : '–';
}

export function mediaName(media: Disk['media']): string {
  return { hdd: 'HDD', ssd: 'SSD', unknown: 'Unknown' }[media];
}

/** What people call an object: `space tank/vm`; a part of the server by its name alone. */
export function objectName({ kind, name }: ObjectRef): string {
  return kind === 'server' ? name : name === '' ? kind : `${kind} ${name}`;
}

/** What a job is done to, as texts call it: `tank`, `tank/vm`, `disk /dev/sda`. */
export function jobTarget({ object }: Pick<Job, 'object'>): string {
  return object.kind === 'disk' ? objectName(object) : object.name;
}

/** The kind and the id of an object, which stay the same when it is renamed. */
export function objectKey({ kind, id }: ObjectRef): string {
  return `${kind} ${id}`;
}

/** Where an object leads; null where it has no page. */
export function objectHref({ kind, id, name }: ObjectRef): string | null {
  switch (kind) {
    case 'pool':
      return `/pools/${encodeURIComponent(name)}`;
    case 'space':
      return `/spaces/${name.split('/').map(encodeURIComponent).join('/')}`;
    case 'volume':
      return `/volumes/${name.split('/').map(encodeURIComponent).join('/')}`;
    case 'disk':
      return `/disks/${encodeURIComponent(id)}`;
    case 'export':
      return '/exports';
    case 'target':
      return `/targets?target=${encodeURIComponent(name)}`;
    case 'lun':
      return `/targets?target=${encodeURIComponent(name.slice(0, name.lastIndexOf('/')))}`;
    case 'job':
      return '/jobs';
    case 'account':
    case 'session':
    case 'token':
      return '/access';
    case 'channel':
    case 'rule':
      return '/notifications';
    case 'server':
    case 'enclosure':
      return null;
  }
}

/** A path without its last part. */
export function folder(path: string): string {
  return path.slice(0, path.lastIndexOf('/') + 1);
}

/** The last part of a path, which tells disks apart at a glance. */
export function shortPath(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1) || path;
}
