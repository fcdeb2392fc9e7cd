// What files of volumes keep to prove their data, in words; the last scrub of them; and how files that lost data are found.
import type { DamagedBlock, IntegrityMode, Job } from './api/types';
import { quoted } from './shell.ts';

export const modeNames: Record<IntegrityMode, string> = { strict: 'Strict', 'pass-through': 'Pass-through', none: 'None' };

/** What each mode means for data. */
export const modeWords: Record<IntegrityMode, string> = {
  strict: 'a checksum of each block, held against it by every read; data is written to new places',
  'pass-through': 'no checksums of its own, those of the space if it has any; data is written over in place',
  none: 'no checksums of its own, and scrubs leave it alone',
};

/** The last scrub of a volume's files that ended, of the jobs that are kept. */
export function lastScrub(jobs: readonly Job[], volume: string): Job | null {
  const ended = jobs.filter(
    ({ kind, object, ended }) => kind === 'scrub-files' && object.kind === 'volume' && object.name === volume && ended,
  );
  return ended.reduce<Job | null>((last, job) => (last === null || job.id > last.id ? job : last), null);
}

/** Files that a command names at most. */
const MOST_NAMED = 8;

/** The command that finds files of a mounted volume by their numbers, each once. */
export function findCommand(directory: string, blocks: readonly DamagedBlock[]): string {
  const numbers = [...new Set(blocks.map((block) => block.file))].slice(0, MOST_NAMED);
  const wanted = numbers.map((number) => `-inum ${number}`).join(' -o ');
  return `find ${quoted(directory)} -xdev ${numbers.length > 1 ? `\\( ${wanted} \\)` : wanted}`;
}
