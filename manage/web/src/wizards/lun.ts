// A LUN as a form holds it, and as the API takes it.
import { parseSize } from '../lib/format.ts';
import { alertProblem, fileProblem, lunProblem } from '../lib/targets.ts';
import type { AddLun } from './types.ts';

export interface LunForm {
  of: 'space' | 'file';
  space: string;
  volume: string;
  path: string;
  make: boolean;
  size: string;
  /** Whether the file is given all of its room at once. */
  full: boolean;
  number: string;
  blocks: NonNullable<AddLun['blocks']>;
  readOnly: boolean;
  /** When initiators are warned, in percent; empty for what the alerts of the pool say. */
  alert: string;
}

/** The fields of the form that refusals of the server are about. */
export const LUN_FIELDS = {
  backing: 'backing',
  lun: 'number',
  blocks: 'blocks',
  size_bytes: 'size',
  alert_percent: 'alert',
  full: 'backing',
} as const;

export function lunForm(): LunForm {
  return {
    of: 'space',
    space: '',
    volume: '',
    path: '/disk.raw',
    make: true,
    size: '10GiB',
    full: false,
    number: '',
    blocks: '512e',
    readOnly: false,
    alert: '',
  };
}

export function lunProblems(form: LunForm): Record<string, string | undefined> {
  const isFile = form.of === 'file';
  const missing = isFile
    ? form.volume === ''
      ? 'Create a volume first, or choose a space.'
      : undefined
    : form.space === ''
      ? 'Create a space first, or choose a file of a volume.'
      : undefined;
  const size = parseSize(form.size);
  return {
    backing: missing,
    path: isFile ? fileProblem(form.path) : undefined,
    size:
      isFile && form.make && (size === null || size <= 0 || size % 4096 !== 0)
        ? 'Enter a multiple of 4 KiB, for example 40GiB.'
        : undefined,
    number: lunProblem(form.number),
    alert: alertProblem(form.alert ?? ''),
  };
}

export function lunRequest(form: LunForm): AddLun {
  const isFile = form.of === 'file';
  return {
    backing: isFile ? `${form.volume}:${form.path}` : form.space,
    ...(form.number === '' ? {} : { lun: Number(form.number) }),
    ...(form.blocks === '512e' ? {} : { blocks: form.blocks }),
    ...(form.readOnly ? { read_only: true } : {}),
    ...(form.alert ? { alert_percent: Number(form.alert) } : {}),
    ...(isFile && form.make ? { size_bytes: parseSize(form.size) ?? 0 } : {}),
    ...(isFile && form.full ? { full: true } : {}),
  };
}
