// Snapshots of volumes in words, where they stand on a line of time, and what is entered of schedules.
import type { Problems } from './form.ts';
import type { SetSnapshotRule, SnapshotDifference, VolumeSnapshot } from './api/types';
import { exactTime, parseTime } from './times.ts';

const CHANGES: Record<SnapshotDifference['change'], string> = {
  created: 'Is removed',
  removed: 'Comes back',
  changed: 'Is put back',
};

/** What a restore does to a file that differs since the snapshot. */
export function restoreWord(one: SnapshotDifference): string {
  return CHANGES[one.change];
}

/** Where a file is, and where it was if that is another place. */
export function placeWords(one: SnapshotDifference): string {
  const now = one.path ?? null;
  const before = one.path_before ?? null;
  if (now !== null && before !== null && now !== before) return `${now} (was ${before})`;
  return now ?? before ?? '?';
}

/** What of a file differs. */
export function partWords(one: SnapshotDifference): string {
  if (one.change !== 'changed') return '';
  return [one.data && 'data', one.names && 'name', one.attributes && 'attributes'].filter(Boolean).join(', ');
}

/** Who made a snapshot. */
export function madeBy(snapshot: VolumeSnapshot): string {
  return typeof snapshot.every_seconds === 'number' ? `Schedule, each ${exactTime(snapshot.every_seconds)}` : 'Hand';
}

/** Marks that a line of time has room for. */
const MARKS = 200;

/** Where snapshots stand between the oldest and now, from 0 to 1. Of those that would hide each other, one stands for all. */
export function places(snapshots: readonly VolumeSnapshot[], now: number): { name: string; at: number }[] {
  const times = snapshots.map((one) => Date.parse(one.created));
  const first = times.reduce((least, time) => Math.min(least, time), now);
  const span = Math.max(1, now - first);
  const marks = new Map<number, { name: string; at: number }>();
  for (const [index, { name }] of snapshots.entries()) {
    const at = Math.min(1, ((times[index] ?? now) - first) / span);
    marks.set(Math.round(at * MARKS), { name, at });
  }
  return [...marks.values()];
}

export interface RuleForm {
  every: string;
  keep: string;
  /** The time of day, as `03:00`, for snapshots that are whole days apart; empty for midnight in UTC. */
  at: string;
}

const DAY_SECONDS = 86_400;

/** Whether the snapshots of a rule are whole days apart. */
export function isDaily(form: Pick<RuleForm, 'every'>): boolean {
  const every = parseTime(form.every);
  return every !== null && every > 0 && every % DAY_SECONDS === 0;
}

/** What the fields of a rule ask for. */
export function ruleRequest(form: RuleForm): SetSnapshotRule {
  const [hours = 0, minutes = 0] = form.at.split(':').map(Number);
  const at = isDaily(form) && form.at !== '' ? { at_minutes: hours * 60 + minutes } : {};
  return { every_seconds: parseTime(form.every) ?? 0, keep: Number(form.keep.trim()), ...at };
}

/** Whether two rules are the same. */
export function sameRule(one: SetSnapshotRule, other: SetSnapshotRule): boolean {
  return (
    one.every_seconds === other.every_seconds &&
    one.keep === other.keep &&
    (one.at_minutes ?? null) === (other.at_minutes ?? null)
  );
}

/** What is wrong with the fields of a rule. */
export function ruleProblems(form: RuleForm): Problems {
  const every = parseTime(form.every);
  const keep = form.keep.trim();
  return {
    every: every === null || every === 0 || every % 60 !== 0 ? 'Enter whole minutes, for example 15m, 1h or 1d.' : undefined,
    keep: /^[1-9][0-9]{0,3}$/.test(keep) && Number(keep) <= 1000 ? undefined : 'Enter a number from 1 to 1000.',
  };
}

/** What is wrong with a path of a volume. */
export function pathProblem(path: string): string | undefined {
  return path.trim().startsWith('/') ? undefined : 'Enter the path from the root of the volume; / is all of it.';
}
