// Names of pools, spaces, exports and accounts, by the server's own rules: what is wrong with one, in a sentence.

/** What is wrong with the name of a pool, a space or an export. */
export function nameProblem(name: string): string | undefined {
  if (name === '') return 'Enter a name.';
  if (name.length > 63) return 'Use at most 63 characters.';
  if (!/^[A-Za-z0-9]/.test(name)) return 'Start with a letter or digit.';
  const wrong = /[^A-Za-z0-9._-]/.exec(name)?.[0];
  return wrong === undefined ? undefined : `“${wrong}” is not allowed; use letters A-Z, digits, “.”, “_” and “-”.`;
}

/** What is wrong with a password. */
export function passwordProblem(password: string): string | undefined {
  const bytes = new TextEncoder().encode(password).length;
  if (bytes < 10) return 'Use at least 10 characters.';
  return bytes > 1024 ? 'Use at most 1,024 bytes.' : undefined;
}

/** A name that none of `taken` is: the word itself, else with a number. */
export function freeName(word: string, taken: readonly string[]): string {
  if (!taken.includes(word)) return word;
  for (let number = 2; ; number += 1) if (!taken.includes(`${word}${number}`)) return `${word}${number}`;
}

/** What is wrong with the name of an account. */
export function accountProblem(name: string): string | undefined {
  if (name === '') return 'Enter a name.';
  if (name.length > 64) return 'Use at most 64 characters.';
  return /^[A-Za-z0-9][A-Za-z0-9._@-]*$/.test(name)
    ? undefined
    : 'Use letters, digits, “-”, “_”, “.” and “@”, and start with a letter or digit.';
}
