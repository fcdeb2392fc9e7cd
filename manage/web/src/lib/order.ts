// The order in which people list names: `disk2` before `disk10`.
const collator = new Intl.Collator('en', { numeric: true, sensitivity: 'base' });

export function natural(one: string, other: string): number {
  return collator.compare(one, other) || (one < other ? -1 : Number(one > other));
}

/** The things in the order of their names. */
export function byName<T>(things: readonly T[], name: (thing: T) => string): T[] {
  return [...things].sort((one, other) => natural(name(one), name(other)));
}
