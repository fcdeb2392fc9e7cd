// What was measured over a while, and the live samples that go on where it ends.
import type { History, LiveSample, Rates } from './api/types';

export const FIGURES = [
  'reads',
  'writes',
  'read_bytes',
  'written_bytes',
  'read_p50_us',
  'read_p99_us',
  'write_p50_us',
  'write_p99_us',
] as const satisfies readonly (keyof Rates)[];

export type Figures = Record<(typeof FIGURES)[number], (number | null)[]>;

export interface Timeline extends Figures {
  /** Unix seconds. */
  times: number[];
}

/** What nothing was asked of: no requests, and no latency of them. */
export const IDLE: Rates = {
  reads: 0,
  writes: 0,
  read_bytes: 0,
  written_bytes: 0,
  read_p50_us: null,
  read_p99_us: null,
  write_p50_us: null,
  write_p99_us: null,
};

/** When the last figure of a history ends. */
export function endMs(history: History): number {
  return history.start_ms + history.reads.length * history.step_seconds * 1000;
}

/** A history, followed by samples that are younger than it; as long as it was. */
export function timeline(history: History, samples: readonly LiveSample[], pick: (sample: LiveSample) => Rates): Timeline {
  const end = endMs(history);
  const younger = samples.filter((sample) => sample.time_ms >= end);
  const length = history.reads.length;
  const times = history.reads.map((_, at) => history.start_ms / 1000 + at * history.step_seconds);
  times.push(...younger.map((sample) => sample.time_ms / 1000));
  const figure = (name: (typeof FIGURES)[number]) =>
    [...history[name], ...younger.map((sample) => pick(sample)[name] ?? null)].slice(-length);
  const figures = Object.fromEntries(FIGURES.map((name) => [name, figure(name)])) as Figures;
  return { times: times.slice(-length), ...figures };
}

/** The last figures of a timeline. */
export function newest(line: Timeline): Rates {
  return Object.fromEntries(FIGURES.map((name) => [name, line[name].at(-1) ?? IDLE[name]])) as unknown as Rates;
}

/** What these spaces did together; how long it took cannot be told of them together. */
export function together(sample: LiveSample | undefined, spaces: readonly string[]): Rates {
  const known = spaces.map((name) => sample?.spaces[name]).filter((rates) => rates !== undefined);
  if (known.length === 1 && spaces.length === 1) return known[0]!;
  const sum = (name: 'reads' | 'writes' | 'read_bytes' | 'written_bytes') => known.reduce((all, rates) => all + rates[name], 0);
  return {
    ...IDLE,
    reads: sum('reads'),
    writes: sum('writes'),
    read_bytes: sum('read_bytes'),
    written_bytes: sum('written_bytes'),
  };
}
