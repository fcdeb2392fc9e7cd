// Words of a command line, quoted as a POSIX shell wants them.
const PLAIN = /^[A-Za-z0-9_\-./:=,@%+]+$/;

export type Word = string | number | false | null | undefined | readonly string[];

export function quoted(word: string): string {
  return PLAIN.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** The words of a command; lists are spread, and what is false, null or undefined is left out. */
export function words(...parts: Word[]): string[] {
  return parts.flatMap((part) =>
    part === false || part === null || part === undefined ? [] : typeof part === 'object' ? part : [String(part)],
  );
}

/** A `holdfast` command of these words. */
export function holdfast(...parts: Word[]): string {
  return ['holdfast', ...words(...parts).map(quoted)].join(' ');
}

/** An option with its value, where there is one. */
export function option(name: string, value: string | number | null | undefined): string[] {
  return value === null || value === undefined || value === '' ? [] : [name, String(value)];
}
