// Quotas of volumes in figures and words, and what is entered of them.
import type { Problems } from './form.ts';
import type { SetVolumeQuota, VolumeQuota } from './api/types';
import { bytes, count, exactSize, parseSize, percent } from './format.ts';

export type QuotaKind = VolumeQuota['kind'];

export interface QuotaForm {
  kind: QuotaKind;
  name: string;
  hard: string;
  soft: string;
  hardFiles: string;
  softFiles: string;
}

export const kindWords: Record<QuotaKind, string> = { tree: 'Directory', user: 'User', group: 'Group', owner: 'Owner' };

/** What stands in the fields: of a quota that is there, or of none. */
export function quotaForm(quota: VolumeQuota | null): QuotaForm {
  const size = (limit: number | null | undefined) => (typeof limit === 'number' ? exactSize(limit) : '');
  const files = (limit: number | null | undefined) => (typeof limit === 'number' ? String(limit) : '');
  return {
    kind: quota?.kind ?? 'tree',
    name: quota?.name ?? '/',
    hard: size(quota?.hard_bytes),
    soft: size(quota?.soft_bytes),
    hardFiles: files(quota?.hard_files),
    softFiles: files(quota?.soft_files),
  };
}

function files(text: string): number | null {
  return /^[1-9][0-9]{0,14}$/.test(text.trim()) ? Number(text.trim()) : null;
}

/** Whose quota it is, as requests name it. */
export function whose(kind: QuotaKind, name: string): { path?: string; user?: string; group?: string; owner?: string } {
  return kind === 'tree' ? { path: name } : { [kind]: name };
}

/** What the fields ask for. */
export function quotaRequest(form: QuotaForm): SetVolumeQuota {
  const limit = (text: string, of: (text: string) => number | null) => (text.trim() === '' ? null : of(text));
  return {
    ...whose(form.kind, form.name.trim()),
    hard_bytes: limit(form.hard, parseSize),
    soft_bytes: limit(form.soft, parseSize),
    hard_files: limit(form.hardFiles, files),
    soft_files: limit(form.softFiles, files),
  };
}

/** What is wrong with the fields. */
export function quotaProblems(form: QuotaForm): Problems {
  const size = (text: string) => (text.trim() !== '' && !parseSize(text) ? 'This is not a size; for example 100GiB.' : undefined);
  const number = (text: string) =>
    text.trim() !== '' && files(text) === null ? 'Enter a whole number of files, or leave it empty.' : undefined;
  const name = form.name.trim();
  const problems: Problems = {
    name:
      form.kind === 'tree'
        ? name.startsWith('/')
          ? undefined
          : 'Enter the path from the root of the volume, for example /projects.'
        : name === ''
          ? 'Enter a name or number.'
          : undefined,
    hard: size(form.hard),
    soft: size(form.soft),
    hardFiles: number(form.hardFiles),
    softFiles: number(form.softFiles),
  };
  const none = [form.hard, form.soft, form.hardFiles, form.softFiles].every((text) => text.trim() === '');
  return none ? { ...problems, hard: 'Set at least one limit.' } : problems;
}

/** How much of its hard limits a quota takes, from 0 to 1, of that which it takes more of; null where it has none. */
export function share(quota: VolumeQuota): number | null {
  const of = (used: number, hard: number | null | undefined) => (typeof hard === 'number' && hard > 0 ? used / hard : null);
  const shares = [of(quota.used_bytes, quota.hard_bytes), of(quota.used_files, quota.hard_files)];
  const known = shares.filter((one) => one !== null);
  return known.length === 0 ? null : Math.max(...known);
}

/** `3 GiB of 10 GiB`. */
export function sizeWords(quota: VolumeQuota): string {
  const limit = quota.hard_bytes ?? quota.soft_bytes;
  const soft = typeof quota.hard_bytes === 'number' ? '' : ' (soft)';
  return typeof limit === 'number' ? `${bytes(quota.used_bytes)} of ${bytes(limit)}${soft}` : bytes(quota.used_bytes);
}

/** `120 of 1,000`. */
export function fileWords(quota: VolumeQuota): string {
  const limit = quota.hard_files ?? quota.soft_files;
  const soft = typeof quota.hard_files === 'number' ? '' : ' (soft)';
  return typeof limit === 'number' ? `${count(quota.used_files)} of ${count(limit)}${soft}` : count(quota.used_files);
}

/** How full it is, and what is being done with it. */
export function stateWords(quota: VolumeQuota): string {
  if (quota.state === 'counting') return 'Being counted';
  if (quota.state === 'leaving') return 'Being removed';
  const full = share(quota);
  return full === null ? '–' : percent(full, 1);
}
