// A LUN as a form holds it, and as the API takes it.
import { parseSize } from '../lib/format.ts';
import { fileProblem, lunProblem } from '../lib/targets.ts';
import type { AddLun } from './types.ts';

export interface LunForm {
  of: 'space' | 'file';
  space: string;
  volume: string;
  path: string;
  make: boolean;
  size: string;
  number: string;
  blocks: NonNullable<AddLun['blocks']>;
  readOnly: boolean;
}

/** The fields of the form that refusals of the server are about. */
export const LUN_FIELDS = {
  backing: 'backing',
  lun: 'number',
  blocks: 'blocks',
  size_bytes: 'size',
} as const;

export function lunForm(): LunForm {
  return {
    of: 'space',
    space: '',
    volume: '',
    path: '/disk.raw',
    make: true,
    size: '10GiB',
    number: '',
    blocks: '512e',
    readOnly: false,
  };
}

export function lunProblems(form: LunForm): Record<string, string | undefined> {
  const isFile = form.of === 'file';
  const missing = isFile
    ? form.volume === ''
      ? 'Create a volume first.'
      : undefined
    : form.space === ''
      ? 'Create a space first.'
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
  };
}

export function lunRequest(form: LunForm): AddLun {
  const isFile = form.of === 'file';
  return {
    backing: isFile ? `${form.volume}:${form.path}` : form.space,
    ...(form.number === '' ? {} : { lun: Number(form.number) }),
    ...(form.blocks === '512e' ? {} : { blocks: form.blocks }),
    ...(form.readOnly ? { read_only: true } : {}),
    ...(isFile && form.make ? { size_bytes: parseSize(form.size) ?? 0 } : {}),
  };
}
