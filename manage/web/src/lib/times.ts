// Times as an administrator types them, and as the command line takes them.
const UNITS: readonly [string, number, string][] = [
  ['d', 86_400, 'day'],
  ['h', 3600, 'hour'],
  ['m', 60, 'minute'],
  ['s', 1, 'second'],
];

function largest(seconds: number): readonly [string, number, string] {
  return UNITS.find(([, length]) => seconds % length === 0) ?? UNITS[3]!;
}

/** `7d`: the largest unit that divides it. */
export function exactTime(seconds: number): string {
  const [unit, length] = largest(seconds);
  return `${seconds / length}${unit}`;
}

/** `7 days`, `1 minute`. */
export function timeText(seconds: number): string {
  const [, length, word] = largest(seconds);
  const count = seconds / length;
  return `${count} ${word}${count === 1 ? '' : 's'}`;
}

/** `03:00` of minutes after midnight. */
export function timeOfDay(minutes: number): string {
  return [Math.floor(minutes / 60), minutes % 60].map((part) => String(part).padStart(2, '0')).join(':');
}

/** Seconds of `12h`, `7 days`, or 0 for `never`; null if it is no time. */
export function parseTime(text: string): number | null {
  if (text.trim().toLowerCase() === 'never') return 0;
  const parts = /^\s*(\d{1,9})\s*(s|m|h|d)[a-z]*\s*$/i.exec(text);
  const unit = UNITS.find(([unit]) => unit === parts?.[2]?.toLowerCase());
  return parts && unit ? Number(parts[1]) * unit[1] : null;
}

/** Percentages as they are typed: `70, 85 %`; an empty list for `none`, null if they cannot be. */
export function parsePercents(text: string): number[] | null {
  if (text.trim().toLowerCase() === 'none') return [];
  const percents = text
    .split(/[\s,%]+/)
    .filter(Boolean)
    .map(Number);
  const fit =
    percents.length > 0 && percents.length <= 8 && percents.every((one) => Number.isInteger(one) && one >= 1 && one <= 100);
  return fit ? percents : null;
}
