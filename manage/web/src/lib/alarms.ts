// What goes wrong while somebody looks is said on every page: one message for each cause, however many events it has.
import type { Cause, Event, ObjectRef } from './api/types';
import { objectKey, objectName } from './words.ts';

export interface Alarm {
  /** The cause, or the object where no cause is known. */
  about: string;
  tone: 'warning' | 'error';
  text: string;
  href: string;
}

/** Messages at once, at most; the last one stands for those that are left out. */
export const MOST_ALARMS = 3;
/** How long the same is not said again. */
const QUIET_MS = 60_000;

/** Whether an event about `object` comes of a cause. */
export function concerns(cause: Cause, object: ObjectRef): boolean {
  const same = (other: ObjectRef) => objectKey(other) === objectKey(object);
  const about = (disk: Cause['disks'][number]) =>
    object.kind === 'disk' ? object.id === disk.id : object.kind === 'pool' && object.name === disk.pool;
  return same(cause.object) || cause.affects.some((one) => same(one.object)) || cause.disks.some(about);
}

/** The messages for events that came together. `told` remembers what was said when, in milliseconds. */
export function alarms(events: readonly Event[], causes: readonly Cause[], told: Map<string, number>, now: number): Alarm[] {
  for (const [about, at] of told) if (now - at >= QUIET_MS) told.delete(about);
  const found = new Map<string, Alarm>();
  for (const event of events) {
    if (event.severity === 'info') continue;
    const cause = causes.find((one) => concerns(one, event.object));
    const [about, name] = [cause?.id ?? objectKey(event.object), objectName(event.object)];
    if (told.has(about) || found.has(about)) continue;
    const grave = cause ? cause.health === 'unhealthy' : event.severity === 'error';
    found.set(about, {
      about,
      tone: grave ? 'error' : 'warning',
      text: cause?.cause ?? (event.cause.includes(name) ? event.cause : `${name}: ${event.cause}`),
      href: cause ? '/' : `/events?event=${event.id}`,
    });
  }
  for (const about of found.keys()) told.set(about, now);
  const all = [...found.values()];
  if (all.length <= MOST_ALARMS) return all;
  const left = all.slice(MOST_ALARMS - 1);
  const tone = left.some((one) => one.tone === 'error') ? 'error' : 'warning';
  const text = `${left.length} more things went wrong.`;
  return [...all.slice(0, MOST_ALARMS - 1), { about: 'more', tone, text, href: '/events' }];
}
