// Limits of a space or an export: as a form holds them, and as the API takes them.
import { count, exactSize, parseSize, rate } from './format.ts';
import type { ApiFailure } from './api/client.ts';
import { fieldAt, type Problems } from './form.ts';

export interface Qos {
  max_iops?: number | null;
  burst_iops?: number | null;
  max_bytes_per_second?: number | null;
  burst_bytes_per_second?: number | null;
  min_iops?: number | null;
}

/** A change: what is left out stays, 0 lifts a limit. */
export type SetQos = { [K in keyof Qos]?: number };

export type QosForm = { [K in keyof Qos]-?: string };

export const QOS_FIELDS: readonly { name: keyof Qos; label: string; hint: string; size: boolean }[] = [
  { name: 'max_iops', label: 'Maximum IOPS', hint: 'Counted in units of 8 KiB; empty for no limit', size: false },
  { name: 'burst_iops', label: 'IOPS burst', hint: 'I/Os beyond the maximum after a rest', size: false },
  { name: 'max_bytes_per_second', label: 'Maximum bytes per second', hint: 'For example 200MiB; empty for no limit', size: true },
  { name: 'burst_bytes_per_second', label: 'Bytes burst', hint: 'For example 1GiB', size: true },
  { name: 'min_iops', label: 'Minimum IOPS', hint: 'Served before other spaces', size: false },
];

/** The field of these forms that a refusal is about. */
export function qosField(failure: Pick<ApiFailure, 'field'>): keyof Qos | undefined {
  return fieldAt(failure, Object.fromEntries(QOS_FIELDS.map(({ name }) => [`qos.${name}`, name])));
}

export function qosForm(qos: Qos | null | undefined): QosForm {
  const text = (name: keyof Qos, size: boolean) => {
    const value = qos?.[name] ?? null;
    return value === null ? '' : size ? exactSize(value) : String(value);
  };
  return Object.fromEntries(QOS_FIELDS.map(({ name, size }) => [name, text(name, size)])) as QosForm;
}

/** The limit that a field has: none where it is empty or 0, undefined where it is wrong. */
function valueOf(text: string, size: boolean): number | null | undefined {
  if (text.trim() === '') return null;
  const number = size ? parseSize(text) : Number(text);
  if (number === null || !Number.isSafeInteger(number) || number < 0) return undefined;
  return number === 0 ? null : number;
}

/** What is wrong at each field. */
export function qosProblems(form: QosForm): Problems {
  const problems: Problems = {};
  for (const { name, size } of QOS_FIELDS) {
    if (valueOf(form[name], size) !== undefined) continue;
    problems[name] = size ? 'This is not a size; for example 200MiB.' : 'This is not a number; for example 2000.';
  }
  if (form.burst_iops.trim() !== '' && form.max_iops.trim() === '') problems['burst_iops'] = 'A burst needs a maximum; set one.';
  if (form.burst_bytes_per_second.trim() !== '' && form.max_bytes_per_second.trim() === '')
    problems['burst_bytes_per_second'] = 'A burst needs a maximum; set one.';
  return problems;
}

/** What has to be sent so that the limits become those of the form. */
export function qosChange(before: Qos | null | undefined, form: QosForm): SetQos {
  const change: SetQos = {};
  for (const { name, size } of QOS_FIELDS) {
    const [old, wanted] = [before?.[name] ?? null, valueOf(form[name], size) ?? null];
    if (old !== wanted) change[name] = wanted ?? 0;
  }
  return change;
}

/** The limits in words: `at most 2,000 IOPS and 50 MiB/s, at least 100 IOPS`. */
export function limitWords(qos: Qos | null | undefined): string {
  const most = [
    qos?.max_iops ? `${count(qos.max_iops)} IOPS` : '',
    qos?.max_bytes_per_second ? rate(qos.max_bytes_per_second) : '',
  ].filter(Boolean);
  const parts = [
    most.length > 0 ? `at most ${most.join(' and ')}` : '',
    qos?.min_iops ? `at least ${count(qos.min_iops)} IOPS` : '',
  ].filter(Boolean);
  return parts.join(', ') || 'None';
}
