// The command that does the same as each action of the console. A test has the real command line parse every one of them.
import type { LayoutKind } from './api/types';
import { exactSize } from './format.ts';
import type { SetQos } from './qos.ts';
import { holdfast, option } from './shell.ts';
import { exactTime } from './times.ts';

export interface Pace {
  priority?: 'low' | 'normal' | 'high' | null;
  cap_bytes_per_second?: number | null;
}

function pace({ priority, cap_bytes_per_second: cap }: Pace): string[] {
  return [...option('--priority', priority === 'normal' ? null : priority), ...option('--cap', cap ? exactSize(cap) : null)];
}

/** An option with a size, where there is one. */
export function size(name: string, bytes: number | null | undefined): string[] {
  return option(name, bytes === null || bytes === undefined ? null : exactSize(bytes));
}

/** The options of quality of service. */
export function limits(qos: SetQos): string[] {
  return [
    ...option('--max-iops', qos.max_iops),
    ...option('--burst-iops', qos.burst_iops),
    ...size('--max-bandwidth', qos.max_bytes_per_second),
    ...size('--burst-bandwidth', qos.burst_bytes_per_second),
    ...option('--min-iops', qos.min_iops),
  ];
}

export interface DiskSettings {
  media?: string | null;
  enclosure?: string | null;
  slot?: number | null;
  usage?: string | null;
}

export interface Conversion extends Pace {
  layout?: LayoutKind | null;
  copies?: number | null;
  parity?: number | null;
  columns?: number | null;
  interleave_bytes?: number | null;
  integrity?: string | null;
  journal_bytes?: number | null;
  thin?: boolean | null;
  size_bytes?: number | null;
  discard_beyond?: boolean;
}

export const disk = {
  set: (disk: string, to: DiskSettings) =>
    holdfast(
      'disk',
      'set',
      disk,
      option('--media', to.media),
      option('--enclosure', to.enclosure),
      option('--slot', to.slot),
      option('--usage', to.usage),
    ),
  evacuate: (disk: string, how: Pace = {}, force = false) => holdfast('disk', 'evacuate', disk, force && '--force', pace(how)),
  retire: (disk: string, evacuate: boolean, how: Pace = {}, force = false) =>
    holdfast('disk', 'retire', disk, evacuate && '--evacuate', force && '--force', evacuate ? pace(how) : null),
  replace: (disk: string, by: string | null, force: boolean, how: Pace = {}, giveUp: readonly string[] = []) =>
    holdfast(
      'disk',
      'replace',
      disk,
      by,
      force && '--force',
      giveUp.flatMap((space) => ['--give-up', space]),
      pace(how),
    ),
  remove: (disk: string, force = false) => holdfast('disk', 'remove', disk, force && '--force'),
  locate: (disk: string, on: boolean) => holdfast('disk', 'locate', disk, !on && '--off'),
  wipe: (disk: string) => holdfast('disk', 'wipe', disk, '--force'),
};

export interface PoolSettings {
  alert_percents?: readonly number[] | null;
  default_alerts?: boolean;
  default_grace?: boolean;
  retire_policy?: string | null;
  grace_seconds?: number | null;
}

export const pool = {
  add: (pool: string, disks: readonly string[], force: boolean) =>
    holdfast(
      'pool',
      'add',
      pool,
      disks.flatMap((disk) => ['--disk', disk]),
      force && '--force',
    ),
  set: (pool: string, to: PoolSettings) =>
    holdfast(
      'pool',
      'set',
      pool,
      option('--alert', to.default_alerts ? 'default' : to.alert_percents && (to.alert_percents.join(',') || 'none')),
      option('--retire-policy', to.retire_policy),
      option('--grace', to.default_grace ? 'default' : typeof to.grace_seconds === 'number' ? `${to.grace_seconds}s` : null),
    ),
  import: (pool: string | null, folders: readonly string[], force: boolean) =>
    holdfast(
      'pool',
      'import',
      pool,
      folders.flatMap((folder) => ['--disk-dir', folder]),
      force && '--force',
    ),
  rebalance: (pool: string, how: Pace = {}) => holdfast('pool', 'rebalance', pool, pace(how)),
  upgrade: (pool: string, how: Pace = {}) => holdfast('pool', 'upgrade', pool, pace(how)),
  export: (pool: string) => holdfast('pool', 'export', pool),
  destroy: (pool: string) => holdfast('pool', 'destroy', pool, '--yes'),
};

export interface ServerSettings {
  host_name?: string;
  scrub_every_seconds?: number;
  repair_after_seconds?: number;
  alert_percents?: readonly number[];
  reset?: readonly string[];
}

/** A time that is set: 0 is never. */
const time = (seconds: number | undefined) => (seconds === undefined ? null : seconds === 0 ? 'never' : exactTime(seconds));

export const settings = {
  set: (to: ServerSettings) => {
    const back = (name: string) => (to.reset?.includes(name) ? 'default' : null);
    return holdfast(
      'settings',
      'set',
      to.reset?.includes('host-name') ? ['--host-name', ''] : option('--host-name', to.host_name),
      option('--scrub-every', time(to.scrub_every_seconds) ?? back('scrub-every')),
      option('--repair-after', time(to.repair_after_seconds) ?? back('repair-after')),
      option('--alert', to.alert_percents ? to.alert_percents.join(',') || 'none' : back('alerts')),
    );
  },
};

export const space = {
  grow: (space: string, bytes: number | null) => holdfast('space', 'grow', space, size('--size', bytes)),
  journal: (space: string, bytes: number | null) => holdfast('space', 'set', space, size('--journal', bytes)),
  limit: (space: string, qos: SetQos) => holdfast('space', 'set', space, limits(qos)),
  scrub: (space: string, how: Pace = {}) => holdfast('space', 'scrub', space, pace(how)),
  repair: (space: string, how: Pace = {}) => holdfast('space', 'repair', space, pace(how)),
  verify: (space: string) => holdfast('space', 'verify', space),
  accept: (space: string) => holdfast('space', 'accept', space),
  destroy: (space: string) => holdfast('space', 'destroy', space, '--yes'),
  convert: (space: string, to: Conversion) =>
    holdfast(
      'space',
      'convert',
      space,
      option('--layout', to.layout),
      option('--copies', to.copies),
      option('--parity', to.parity),
      option('--columns', to.columns),
      size('--interleave', to.interleave_bytes),
      option('--integrity', to.integrity),
      size('--journal', to.journal_bytes),
      to.thin === true && '--thin',
      to.thin === false && '--fixed',
      size('--size', to.size_bytes),
      to.discard_beyond && '--discard-beyond',
      pace(to),
    ),
};
