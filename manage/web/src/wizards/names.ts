// Names of pools, spaces, exports and accounts, by the server's own rules: what is wrong with one, in a sentence.

/** What is wrong with the name of a pool, a space or an export. */
export function nameProblem(name: string): string | undefined {
  if (name === '') return 'Give it a name.';
  if (name.length > 63) return 'A name has 63 characters at most.';
  if (!/^[A-Za-z0-9]/.test(name)) return 'A name begins with a letter or digit.';
  const wrong = /[^A-Za-z0-9._-]/.exec(name)?.[0];
  return wrong === undefined ? undefined : `“${wrong}” cannot be in a name: letters A-Z, digits, “.”, “_” and “-” can.`;
}

/** What is wrong with a password. */
export function passwordProblem(password: string): string | undefined {
  const bytes = new TextEncoder().encode(password).length;
  if (bytes < 10) return 'A password has 10 characters at least.';
  return bytes > 1024 ? 'A password has 1,024 bytes at most.' : undefined;
}

/** A name that none of `taken` is: the word itself, else with a number. */
export function freeName(word: string, taken: readonly string[]): string {
  if (!taken.includes(word)) return word;
  for (let number = 2; ; number += 1) if (!taken.includes(`${word}${number}`)) return `${word}${number}`;
}

/** What is wrong with the name of an account. */
export function accountProblem(name: string): string | undefined {
  if (name === '') return 'Give it a name.';
  if (name.length > 64) return 'A name has 64 characters at most.';
  return /^[A-Za-z0-9][A-Za-z0-9._@-]*$/.test(name)
    ? undefined
    : 'Letters, digits, “-”, “_”, “.” and “@”; a letter or digit first.';
}
