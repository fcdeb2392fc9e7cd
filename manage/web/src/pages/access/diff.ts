// What differs of an object before and after a change, field by field.
export interface Difference {
  /** The way to the field, as `room.used_bytes`. */
  field: string;
  /** Its value as JSON; undefined where it was not there. */
  before: string | undefined;
  after: string | undefined;
}

const MOST = 500;

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function text(value: unknown): string | undefined {
  return value === undefined ? undefined : typeof value === 'string' ? value : JSON.stringify(value);
}

/** The fields that differ; null stands for an object that is not there. */
export function changes(before: unknown, after: unknown): Difference[] {
  const found: Difference[] = [];
  const walk = (field: string, old: unknown, now: unknown) => {
    if (found.length >= MOST) return;
    if (isObject(old) || isObject(now)) {
      const [a, b] = [isObject(old) ? old : {}, isObject(now) ? now : {}];
      for (const name of new Set([...Object.keys(a), ...Object.keys(b)]))
        walk(field === '' ? name : `${field}.${name}`, a[name], b[name]);
    } else if (JSON.stringify(old) !== JSON.stringify(now)) found.push({ field, before: text(old), after: text(now) });
  };
  walk('', before ?? undefined, after ?? undefined);
  return found;
}
