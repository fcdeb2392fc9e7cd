// The command that does the same as each action of the console. A test has the real command line parse every one of them.
import type {
  IntegrityMode,
  LayoutKind,
  ModeChange,
  RestoreSnapshot,
  SetSnapshotRule,
  SetVolumeQuota,
  VolumeQuota,
} from './api/types';
import type { AddLun, CreateExport, CreateSpace, CreateTarget, CreateVolume } from '../wizards/types.ts';
import { exactSize } from './format.ts';
import type { SetQos } from './qos.ts';
import { holdfast, option } from './shell.ts';
import { exactTime, timeOfDay } from './times.ts';

export interface Pace {
  priority?: 'low' | 'normal' | 'high' | null;
  cap_bytes_per_second?: number | null;
}

function pace({ priority, cap_bytes_per_second: cap }: Pace): string[] {
  return [...option('--priority', priority === 'normal' ? null : priority), ...option('--cap', cap ? exactSize(cap) : null)];
}

/** An option with a size, where there is one. */
function size(name: string, bytes: number | null | undefined): string[] {
  return option(name, bytes === null || bytes === undefined ? null : exactSize(bytes));
}

/** The options of quality of service. */
function limits(qos: SetQos): string[] {
  return [
    ...option('--max-iops', qos.max_iops),
    ...option('--burst-iops', qos.burst_iops),
    ...size('--max-bandwidth', qos.max_bytes_per_second),
    ...size('--burst-bandwidth', qos.burst_bytes_per_second),
    ...option('--min-iops', qos.min_iops),
  ];
}

/** Several commands, each of which is run only if the one before it succeeded. */
export function chain(...commands: (string | null)[]): string {
  return commands.filter((command) => command !== null).join(' &&\n');
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
  create: (name: string, disks: readonly string[], force: boolean) =>
    holdfast(
      'pool',
      'create',
      name,
      disks.flatMap((disk) => ['--disk', disk]),
      force && '--force',
    ),
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

/** The options of a new space. */
function shape(request: CreateSpace): string[] {
  return [
    ...option('--layout', request.layout),
    ...option('--copies', request.copies),
    ...option('--parity', request.parity),
    ...option('--columns', request.columns),
    ...size('--interleave', request.interleave_bytes),
    ...option('--integrity', request.integrity),
    ...size('--journal', request.journal_bytes),
    ...size('--size', request.size_bytes),
    ...(request.thin ? ['--thin'] : []),
    ...(request.enclosure_aware ? ['--enclosure-aware'] : []),
  ];
}

export const space = {
  create: (request: CreateSpace) => holdfast('space', 'create', request.name, shape(request)),
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

export const volume = {
  create: (request: CreateVolume) =>
    holdfast(
      'volume',
      'create',
      request.name,
      request.space ? shape(request.space) : null,
      option('--on', request.on),
      request.case_sensitive && '--case-sensitive',
    ),
  set: (volume: string, change: ModeChange) => holdfast('volume', 'set', volume, option('--mode-change', change)),
  mount: (volume: string, directory: string, over: boolean, create = false) =>
    holdfast('volume', 'mount', volume, directory, over && '--over', create && '--create-directory'),
  unmount: (volume: string, force: boolean) => holdfast('volume', 'unmount', volume, force && '--force'),
  grow: (volume: string, bytes: number | null) => holdfast('volume', 'grow', volume, size('--size', bytes)),
  shrink: (volume: string, bytes: number | null, how: Pace = {}) =>
    holdfast('volume', 'shrink', volume, size('--size', bytes), pace(how)),
  quotaSet: (volume: string, to: SetVolumeQuota) =>
    holdfast(
      'volume',
      'quota',
      'set',
      volume,
      option('--path', to.path),
      option('--user', to.user),
      option('--group', to.group),
      option('--owner', to.owner),
      size('--size', to.hard_bytes),
      option('--files', to.hard_files),
      size('--soft-size', to.soft_bytes),
      option('--soft-files', to.soft_files),
    ),
  quotaRemove: (volume: string, kind: VolumeQuota['kind'], name: string) =>
    holdfast('volume', 'quota', 'remove', volume, option(kind === 'tree' ? '--path' : `--${kind}`, name)),
  aclSet: (volume: string, path: string, sddl: string, below: boolean, how: Pace = {}) =>
    holdfast('volume', 'acl', 'set', `${volume}${path}`, option('--sddl', sddl), below && '--below', pace(how)),
  integritySet: (volume: string, path: string, mode: IntegrityMode, below: boolean, how: Pace = {}) =>
    holdfast('volume', 'integrity', 'set', `${volume}${path}`, mode, below && '--below', pace(how)),
  scrub: (volume: string, how: Pace = {}) => holdfast('volume', 'scrub', volume, pace(how)),
  gather: (volume: string, how: Pace = {}) => holdfast('volume', 'gather', volume, pace(how)),
  journalSet: (volume: string, bytes: number | null) => holdfast('volume', 'journal', 'set', volume, size('--size', bytes)),
  journalRead: (volume: string) => holdfast('volume', 'journal', 'read', volume),
  journalRemove: (volume: string) => holdfast('volume', 'journal', 'remove', volume, '--yes'),
  scan: (volume: string, how: Pace = {}) => holdfast('volume', 'scan', volume, pace(how)),
  spotfix: (volume: string, how: Pace = {}, offline = false, force = false) =>
    holdfast('volume', 'spotfix', volume, offline && '--offline', offline && force && '--force', pace(how)),
  trim: (volume: string, how: Pace = {}) => holdfast('volume', 'trim', volume, pace(how)),
  salvage: (volume: string, to: string, how: Pace = {}, force = false) =>
    holdfast('volume', 'salvage', volume, option('--to', to), force && '--force', pace(how)),
  destroy: (volume: string) => holdfast('volume', 'destroy', volume, '--yes'),
};

export const snapshot = {
  create: (volume: string, name: string) => holdfast('snapshot', 'create', `${volume}@${name}`),
  diff: (volume: string, name: string) => holdfast('snapshot', 'diff', `${volume}@${name}`),
  restore: (volume: string, name: string, to: RestoreSnapshot & Pace) =>
    holdfast(
      'snapshot',
      'restore',
      `${volume}@${name}`,
      option('--path', to.path),
      option('--to', to.to),
      !to.to && to.keep === false && '--discard',
      !to.to && '--yes',
      pace(to),
    ),
  destroy: (volume: string, name: string) => holdfast('snapshot', 'destroy', `${volume}@${name}`, '--yes'),
  /** `yes` where snapshots that are there are destroyed by it. */
  scheduleSet: (volume: string, rule: SetSnapshotRule, yes = false) =>
    holdfast(
      'snapshot',
      'schedule',
      'set',
      volume,
      option('--every', exactTime(rule.every_seconds)),
      option('--at', typeof rule.at_minutes === 'number' ? timeOfDay(rule.at_minutes) : null),
      option('--keep', rule.keep),
      yes && '--yes',
    ),
  scheduleRemove: (volume: string, every: number) =>
    holdfast('snapshot', 'schedule', 'remove', volume, option('--every', exactTime(every))),
};

export const nbd = {
  export: (request: CreateExport) =>
    holdfast('nbd', 'export', request.space, option('--name', request.name), request.read_only && '--read-only'),
  set: (name: string, qos: SetQos) => holdfast('nbd', 'set', name, limits(qos)),
  unexport: (name: string) => holdfast('nbd', 'unexport', name),
};

/** Secrets are no part of commands: they ask, or read a file. */
export const target = {
  create: (request: CreateTarget) =>
    holdfast(
      'target',
      'create',
      request.name,
      option('--iqn', request.iqn),
      (request.portals ?? []).flatMap((address) => ['--portal', address]),
      request.open && '--open',
    ),
  set: (name: string, to: { open?: boolean; mutual?: string | null }) =>
    holdfast(
      'target',
      'set',
      name,
      to.open === true && '--open',
      to.open === false && '--closed',
      option('--mutual', to.mutual),
      to.mutual === null && '--no-mutual',
    ),
  destroy: (name: string) => holdfast('target', 'destroy', name, '--yes'),
  portalAdd: (name: string, address: string, group: number, state: string) =>
    holdfast('target', 'portal', 'add', name, address, option('--group', group), option('--state', state)),
  portalSet: (name: string, address: string, group: number, state: string) =>
    holdfast('target', 'portal', 'set', name, address, option('--group', group), option('--state', state)),
  portalRemove: (name: string, address: string) => holdfast('target', 'portal', 'remove', name, address),
};

export const lun = {
  add: (target: string, request: AddLun) =>
    holdfast(
      'lun',
      'add',
      target,
      request.backing,
      option('--lun', request.lun),
      option('--block', request.blocks),
      request.read_only && '--read-only',
      size('--size', request.size_bytes),
      request.full && '--full',
      option('--alert', request.alert_percent === 0 ? 'none' : request.alert_percent),
    ),
  set: (target: string, number: number, qos: SetQos) => holdfast('lun', 'set', target, number, limits(qos)),
  /** Null for what the alerts of the pool say. */
  alert: (target: string, number: number, percent: number | null) =>
    holdfast('lun', 'set', target, number, option('--alert', percent === null ? 'default' : percent || 'none')),
  grow: (target: string, number: number, bytes: number | null) => holdfast('lun', 'grow', target, number, size('--size', bytes)),
  remove: (target: string, number: number) => holdfast('lun', 'remove', target, number, '--yes'),
};

export const initiator = {
  /** As `user` by CHAP, or by its name alone. */
  allow: (target: string, iqn: string, user: string | null) =>
    holdfast('initiator', 'allow', target, iqn, user === null ? '--no-chap' : option('--chap', user)),
  deny: (target: string, iqn: string) => holdfast('initiator', 'deny', target, iqn),
};

export const iscsi = {
  drop: (session: number) => holdfast('iscsi', 'session', 'drop', session),
  discoverySet: (user: string) => holdfast('iscsi', 'discovery', 'set', option('--chap', user)),
  discoveryClear: () => holdfast('iscsi', 'discovery', 'clear'),
};

export const reservation = {
  list: (target: string, number: number) => holdfast('reservation', 'list', target, number),
  clear: (target: string, number: number) => holdfast('reservation', 'clear', target, number, '--yes'),
};

export const job = {
  pause: (id: number) => holdfast('job', 'pause', id),
  resume: (id: number) => holdfast('job', 'resume', id),
  cancel: (id: number) => holdfast('job', 'cancel', id),
  set: (id: number, priority: string | null, cap: number | null) =>
    holdfast(
      'job',
      'set',
      id,
      option('--priority', priority),
      option('--cap', cap === null ? null : cap === 0 ? 'none' : exactSize(cap)),
    ),
};

export const account = {
  create: (name: string, role: string) => holdfast('account', 'create', name, option('--role', role)),
  set: (name: string, to: { role?: string; enabled?: boolean; password?: string }) =>
    holdfast(
      'account',
      'set',
      name,
      option('--role', to.role),
      to.enabled === true && '--enable',
      to.enabled === false && '--disable',
      to.password !== undefined && '--password',
    ),
  delete: (name: string) => holdfast('account', 'delete', name),
};

export const token = {
  create: (name: string, role: string, areas: readonly string[], days: string) =>
    holdfast(
      'token',
      'create',
      name,
      option('--role', role),
      areas.flatMap((area) => ['--area', area]),
      option('--expires', `${days}d`),
    ),
  delete: (id: string) => holdfast('token', 'delete', id),
};

export interface ChannelSettings {
  mail?: {
    server?: string;
    port?: number;
    security?: string;
    user?: string;
    password?: string;
    from?: string;
    to?: readonly string[];
    ca_certificate?: string;
  };
  webhook?: { url?: string; template?: string; secret?: string; token?: string; ca_certificate?: string };
}

/** The options of a channel. Secrets are no part of them: the command asks, or reads a file. */
function channelOptions({ mail, webhook }: ChannelSettings, setting: boolean): string[] {
  const ca = mail?.ca_certificate ?? webhook?.ca_certificate;
  const authority = ca === undefined ? [] : ca === '' ? ['--no-ca'] : ['--ca-file', 'FILE'];
  const given = (name: string, value: string | undefined) =>
    value === undefined ? [] : value === '' ? [`--no-${name}`] : [`--${name}`];
  if (mail) {
    const login = mail.user ? option('--user', mail.user) : setting ? ['--no-login'] : [];
    return [
      ...option('--host', mail.server),
      ...option('--port', mail.port || null),
      ...option('--security', mail.security),
      ...login,
      ...(setting && mail.user && mail.password ? ['--password'] : []),
      ...option('--from', mail.from),
      ...(mail.to ?? []).flatMap((address) => ['--to', address]),
      ...authority,
    ];
  }
  return [
    ...(setting && webhook?.url !== undefined ? ['--url-file', 'FILE'] : []),
    ...option('--template', webhook?.template),
    ...given('secret', webhook?.secret),
    ...given('token', webhook?.token),
    ...authority,
  ];
}

export interface RuleSettings {
  channel?: string;
  severity?: string;
  objects?: readonly string[];
  digest_seconds?: number;
  quiet?: string;
  errors_pass_quiet?: boolean;
}

function ruleOptions(to: RuleSettings, setting: boolean): string[] {
  const objects = to.objects ?? [];
  return [
    ...option('--channel', to.channel),
    ...option('--severity', to.severity),
    ...(setting && to.objects && objects.length === 0 ? ['--all-objects'] : objects.flatMap((object) => ['--object', object])),
    ...(to.digest_seconds ? option('--digest', `${to.digest_seconds}s`) : setting ? ['--digest', 'none'] : []),
    ...(to.quiet ? option('--quiet', to.quiet) : setting ? ['--quiet', 'none'] : []),
    ...(to.quiet && to.errors_pass_quiet === false ? ['--errors-pass-quiet', 'false'] : []),
    ...(setting && to.quiet && to.errors_pass_quiet ? ['--errors-pass-quiet', 'true'] : []),
  ];
}

export const notify = {
  addChannel: (name: string, to: ChannelSettings) =>
    holdfast('notify', 'channel', 'add', to.mail ? 'mail' : 'webhook', name, channelOptions(to, false)),
  setChannel: (name: string, to: ChannelSettings) => holdfast('notify', 'channel', 'set', name, channelOptions(to, true)),
  removeChannel: (name: string) => holdfast('notify', 'channel', 'remove', name),
  addRule: (name: string, to: RuleSettings) => holdfast('notify', 'rule', 'add', name, ruleOptions(to, false)),
  setRule: (name: string, to: RuleSettings) => holdfast('notify', 'rule', 'set', name, ruleOptions(to, true)),
  removeRule: (name: string) => holdfast('notify', 'rule', 'remove', name),
  test: (name: string) => holdfast('notify', 'test', name),
};
