// The lists that several pages show, each fetched once for all of them.
import { ApiFailure, call } from './api/client';
import type {
  DamagedBlock,
  EvacuationPlan,
  Job,
  SnapshotSchedule,
  Space,
  Target,
  Volume,
  VolumeFinding,
  VolumeJournal,
  VolumeQuota,
  VolumeSnapshot,
} from './api/types';
import { live, Resource } from './live.svelte';

export const status = new Resource(['status'], (signal) => call('get', '/status', { signal }));
export const disks = new Resource(['disks'], (signal) => call('get', '/disks', { signal }));
export const pools = new Resource(['pools'], (signal) => call('get', '/pools', { signal }));
export const spaces = new Resource(['spaces'], (signal): Promise<Space[]> => call('get', '/spaces', { signal }));
export const volumes = new Resource(['volumes'], (signal): Promise<Volume[]> => call('get', '/volumes', { signal }));
export const exports = new Resource(['exports'], (signal) => call('get', '/exports', { signal }));
export const targets = new Resource(['targets'], (signal): Promise<Target[]> => call('get', '/targets', { signal }));
export const iscsiSessions = new Resource(['targets'], (signal) => call('get', '/iscsi/sessions', { signal }));
export const discovery = new Resource(['targets'], (signal) => call('get', '/iscsi/discovery', { signal }));
export const jobs = new Resource(['jobs'], (signal) => call('get', '/jobs', { signal }));

/** The events that are kept, oldest first. */
export const events = new Resource(['events'], (signal) => call('get', '/events', { signal }));

/** The newest of them. */
export const lastEvents = new Resource(['events'], (signal) => call('get', '/events', { query: { limit: 8 }, signal }));

/** One pool, with what it could still hold in each layout. */
export function poolResource(pool: string) {
  return new Resource(['pools', 'disks', 'spaces'], (signal) => call('get', '/pools/{pool}', { path: { pool }, signal }));
}

/** One disk, by id or path. */
export function diskResource(disk: string) {
  return new Resource(['disks'], (signal) => call('get', '/disks/{disk}', { path: { disk }, signal }));
}

/** One space, by the two parts of its name. */
export function spaceResource(pool: string, space: string) {
  return new Resource(['spaces'], (signal): Promise<Space> =>
    call('get', '/spaces/{pool}/{space}', { path: { pool, space }, signal }),
  );
}

/** One volume, by the two parts of its name. */
export function volumeResource(pool: string, volume: string) {
  return new Resource(['volumes'], (signal): Promise<Volume> =>
    call('get', '/volumes/{pool}/{volume}', { path: { pool, volume }, signal }),
  );
}

/** What the last scan of a volume found and nobody repaired since. */
export function findingsResource(pool: string, volume: string) {
  return new Resource(['volumes', 'jobs'], (signal): Promise<VolumeFinding[]> =>
    call('get', '/volumes/{pool}/{volume}/findings', { path: { pool, volume }, signal }),
  );
}

/** Blocks of a volume that are right in no copy. */
export function damageResource(pool: string, volume: string) {
  return new Resource(['volumes', 'jobs'], (signal): Promise<DamagedBlock[]> =>
    call('get', '/volumes/{pool}/{volume}/damage', { path: { pool, volume }, signal }),
  );
}

/** The change journal of a volume; null while it is off. */
export function journalResource(pool: string, volume: string) {
  return new Resource(['volumes'], async (signal): Promise<VolumeJournal | null> => {
    try {
      return await call('get', '/volumes/{pool}/{volume}/journal', { path: { pool, volume }, signal });
    } catch (thrown) {
      if (thrown instanceof ApiFailure && thrown.code === 'not-found') return null;
      throw thrown;
    }
  });
}

/** The quotas of a volume. */
export function quotasResource(pool: string, volume: string) {
  return new Resource(['volumes', 'jobs'], (signal): Promise<VolumeQuota[]> =>
    call('get', '/volumes/{pool}/{volume}/quotas', { path: { pool, volume }, signal }),
  );
}

/** The snapshots of a volume, the oldest first. */
export function snapshotsResource(pool: string, volume: string) {
  return new Resource(['volumes', 'jobs'], (signal): Promise<VolumeSnapshot[]> =>
    call('get', '/volumes/{pool}/{volume}/snapshots', { path: { pool, volume }, signal }),
  );
}

/** The rules by which snapshots of a volume are made. */
export function scheduleResource(pool: string, volume: string) {
  return new Resource(['volumes'], (signal): Promise<SnapshotSchedule> =>
    call('get', '/volumes/{pool}/{volume}/snapshot-schedule', { path: { pool, volume }, signal }),
  );
}

/** Who reserved a LUN, and who is registered for reservations. */
export function reservationResource(target: string, lun: number) {
  return new Resource(['targets'], (signal) =>
    call('get', '/targets/{target}/luns/{lun}/reservation', { path: { target, lun }, signal }),
  );
}

/** Where every slab of a space lies. */
export function mapResource(pool: string, space: string) {
  return new Resource(['spaces', 'disks', 'jobs'], (signal) =>
    call('get', '/spaces/{pool}/{space}/map', { path: { pool, space }, signal }),
  );
}

const ENDED: readonly Job['state'][] = ['done', 'failed', 'cancelled'];

/** Jobs that have not ended, as far on as the last sample of the stream has them. */
export function runningJobs(listed: readonly Job[]): Job[] {
  const sampled = new Map(live.latest?.jobs.map((job) => [job.id, job]));
  return listed
    .filter((job) => !ENDED.includes(job.state))
    .map((job) => sampled.get(job.id) ?? job)
    .filter((job) => !ENDED.includes(job.state));
}

/** What emptying a disk would move, and which spaces would get no new rows without it. */
export function planOfEvacuation(disk: string): Resource<EvacuationPlan> {
  return new Resource([], (signal) => call('post', '/disks/{disk}/evacuate/plan', { path: { disk }, signal }));
}
