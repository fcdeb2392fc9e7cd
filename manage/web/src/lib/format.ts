// Figures as people read them. Sizes are in powers of 1024 and say so; the command line reads the same spelling.
const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];
const FACTORS: Record<string, number> = { b: 1, kb: 1e3, mb: 1e6, gb: 1e9, tb: 1e12, pb: 1e15 };
UNITS.forEach((unit, power) => (FACTORS[unit.toLowerCase()] = 1024 ** power));

function digits(value: number): string {
  const places = value >= 100 || Number.isInteger(value) ? 0 : value >= 10 ? 1 : 2;
  return value.toFixed(places).replace(/\.(\d*?)0+$/, (_, rest: string) => (rest === '' ? '' : `.${rest}`));
}

/** `1.5 TiB`; a dash for nothing. */
export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined) return '–';
  let power = 0;
  let scaled = value;
  while (Math.abs(scaled) >= 1024 && power < UNITS.length - 1) {
    scaled /= 1024;
    power += 1;
  }
  if (Math.abs(scaled) >= 1023.5 && power < UNITS.length - 1) return `1 ${UNITS[power + 1]}`;
  return `${digits(scaled)} ${UNITS[power]}`;
}

/** A size exactly as the command line takes it: the largest unit that divides it, `1536MiB`. */
export function exactSize(value: number): string {
  let power = 0;
  let scaled = value;
  while (scaled !== 0 && scaled % 1024 === 0 && power < UNITS.length - 1) {
    scaled /= 1024;
    power += 1;
  }
  return `${scaled}${UNITS[power]}`;
}

/** Reads `4GiB`, `1.5 TiB` or `500GB`; null if it is no size. */
export function parseSize(text: string): number | null {
  const parts = /^\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*$/i.exec(text);
  const factor = FACTORS[(parts?.[2] || 'b').toLowerCase()];
  if (!parts || factor === undefined) return null;
  const value = Number(parts[1]) * factor;
  return Number.isSafeInteger(value) ? value : null;
}

/** What a message adds where the server rounds a size up to whole blocks; empty where it does not. */
export function roundedWords(size: number): string {
  const whole = Math.ceil(size / 4096) * 4096;
  return whole === size ? '' : `; ${exactSize(size)} rounded up to ${exactSize(whole)}, whole blocks of 4 KiB`;
}

/** `12.5 MiB/s`. */
export function rate(bytesPerSecond: number | null | undefined): string {
  return bytesPerSecond === null || bytesPerSecond === undefined ? '–' : `${bytes(bytesPerSecond)}/s`;
}

/** `12,300`; `1.23 M` from a million on. */
export function count(value: number | null | undefined): string {
  if (value === null || value === undefined) return '–';
  if (value >= 1e9) return `${digits(value / 1e9)} G`;
  if (value >= 1e6) return `${digits(value / 1e6)} M`;
  return Math.round(value).toLocaleString('en-US');
}

/** A number of things: `1 disk`, `3 disks`. */
export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** `850 µs`, `1.2 ms`, `3 s`. */
export function latency(microseconds: number | null | undefined): string {
  if (microseconds === null || microseconds === undefined) return '–';
  if (microseconds < 1000) return `${digits(Math.round(microseconds))} µs`;
  if (microseconds < 1e6) return `${digits(microseconds / 1000)} ms`;
  return `${digits(microseconds / 1e6)} s`;
}

/** `42 %`, of a whole that may be nothing. */
export function percent(part: number, whole: number): string {
  if (whole <= 0) return '0 %';
  const share = (100 * part) / whole;
  return `${share > 0 && share < 10 ? share.toFixed(1) : share.toFixed(0)} %`;
}

/** `3 d 4 h`, `12 min`, `8 s`. */
export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined) return '–';
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min${whole % 60 && whole < 600 ? ` ${whole % 60} s` : ''}`;
  if (whole < 86_400)
    return `${Math.floor(whole / 3600)} h${whole % 3600 >= 60 ? ` ${Math.floor((whole % 3600) / 60)} min` : ''}`;
  return `${Math.floor(whole / 86_400)} d${whole % 86_400 >= 3600 ? ` ${Math.floor((whole % 86_400) / 3600)} h` : ''}`;
}

/** A moment in the reader's own time zone: `2026-03-09 14:05:09`. */
export function moment(rfc3339: string | null | undefined): string {
  if (!rfc3339) return '–';
  const date = new Date(rfc3339);
  if (Number.isNaN(date.getTime())) return rfc3339;
  const two = (value: number) => String(value).padStart(2, '0');
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/** The time of day of a moment: `12:03:11`. */
export function clock(date: Date): string {
  return moment(date.toISOString()).slice(11);
}

/** How long ago: `5 min ago`. */
export function ago(rfc3339: string, now = Date.now()): string {
  const seconds = (now - new Date(rfc3339).getTime()) / 1000;
  if (seconds < 5) return 'just now';
  return `${duration(seconds < 3600 && seconds > 60 ? Math.floor(seconds / 60) * 60 : seconds)} ago`;
}
