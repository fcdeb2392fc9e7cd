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
