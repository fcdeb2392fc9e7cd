// The command that does the same as each wizard and each page that changes things.
import type { CreateExport, CreateSpace } from './types.ts';
import { exactSize } from '../lib/format.ts';
import { holdfast, option } from '../lib/shell.ts';
import { limits, size } from '../lib/commands.ts';
import type { SetQos } from '../lib/qos.ts';

/** Several commands, each of which is run only if the one before it succeeded. */
export function chain(...commands: (string | null)[]): string {
  return commands.filter((command) => command !== null).join(' &&\n');
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
};

export const disk = {
  usage: (disk: string, usage: string) => holdfast('disk', 'set', disk, '--usage', usage),
};

export const space = {
  create: (request: CreateSpace) =>
    holdfast(
      'space',
      'create',
      request.name,
      option('--layout', request.layout),
      option('--copies', request.copies),
      option('--parity', request.parity),
      option('--columns', request.columns),
      size('--interleave', request.interleave_bytes),
      option('--integrity', request.integrity),
      size('--journal', request.journal_bytes),
      size('--size', request.size_bytes),
      request.thin && '--thin',
      request.enclosure_aware && '--enclosure-aware',
    ),
};

export const nbd = {
  export: (request: CreateExport) =>
    holdfast('nbd', 'export', request.space, option('--name', request.name), request.read_only && '--read-only'),
  set: (name: string, qos: SetQos) => (Object.keys(qos).length === 0 ? null : holdfast('nbd', 'set', name, limits(qos))),
  unexport: (name: string) => holdfast('nbd', 'unexport', name),
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
