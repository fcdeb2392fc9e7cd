// How fast a job may be, as a form holds it and as the API takes it.
import { parseSize } from './format.ts';

export interface PaceForm {
  priority: 'low' | 'normal' | 'high';
  /** A size a second, such as `50MiB`; empty for no cap. */
  cap: string;
}

export const usualPace = (): PaceForm => ({ priority: 'normal', cap: '' });

export function capProblem({ cap }: PaceForm): string | undefined {
  const bytes = parseSize(cap);
  return cap.trim() === '' || (bytes !== null && bytes > 0)
    ? undefined
    : 'This is no rate; for example 50MiB, or leave it empty.';
}

export function asPace({ priority, cap }: PaceForm): { priority: PaceForm['priority']; cap_bytes_per_second: number | null } {
  return { priority, cap_bytes_per_second: cap.trim() === '' ? null : parseSize(cap) };
}
