// Lists of permissions as an editor holds them: who, allowed or denied, which rights, where they apply; and the text that sets them.
import type { AclEntry } from './api/types';

/** Sets of rights that have a name, as bits of an access mask ([MS-DTYP] 2.4.3). */
export const SETS: readonly { mask: number; text: string }[] = [
  { mask: 0x1f01ff, text: 'Full control' },
  { mask: 0x1301bf, text: 'Modify' },
  { mask: 0x1200a9, text: 'Read and execute' },
  { mask: 0x120089, text: 'Read' },
  { mask: 0x120116, text: 'Write' },
];

/** Each right by itself. */
export const RIGHTS: readonly { bit: number; text: string }[] = [
  { bit: 0x1, text: 'Read data, list the directory' },
  { bit: 0x2, text: 'Write data, create files' },
  { bit: 0x4, text: 'Append data, create directories' },
  { bit: 0x20, text: 'Execute, pass through' },
  { bit: 0x10000, text: 'Delete' },
  { bit: 0x40, text: 'Delete what is inside' },
  { bit: 0x80, text: 'Read attributes' },
  { bit: 0x100, text: 'Write attributes' },
  { bit: 0x8, text: 'Read extended attributes' },
  { bit: 0x10, text: 'Write extended attributes' },
  { bit: 0x20000, text: 'Read permissions' },
  { bit: 0x40000, text: 'Change permissions' },
  { bit: 0x80000, text: 'Take ownership' },
  { bit: 0x100000, text: 'Synchronize' },
];

/** Rights in words: those of a set that has a name, or each by itself. */
export function rightsWords(mask: number): string {
  const named = SETS.find((set) => set.mask === mask)?.text ?? '';
  const single = RIGHTS.filter(({ bit }) => (mask & bit) !== 0).map(({ text }) => text);
  return (named || single.join('; ') || 'Nothing').toLowerCase();
}

type Where = Pick<AclEntry, 'here' | 'files' | 'directories'>;

/** Where an entry of a directory can apply. */
export const PLACES: readonly (Where & { id: string; text: string })[] = [
  { id: 'all', text: 'This directory and all below', here: true, files: true, directories: true },
  { id: 'this', text: 'This directory only', here: true, files: false, directories: false },
  { id: 'directories', text: 'This directory and directories below', here: true, files: false, directories: true },
  { id: 'files', text: 'This directory and files below', here: true, files: true, directories: false },
  { id: 'below', text: 'All below only', here: false, files: true, directories: true },
  { id: 'directories-below', text: 'Directories below only', here: false, files: false, directories: true },
  { id: 'files-below', text: 'Files below only', here: false, files: true, directories: false },
];

const fits = (entry: Where) => (place: Where) =>
  place.here === entry.here && place.files === entry.files && place.directories === entry.directories;

/** The place of an entry; an entry that applies nowhere has none. */
export function placeOf(entry: Where): string {
  return PLACES.find(fits(entry))?.id ?? '';
}

/** An entry at another place. */
export function placed(entry: AclEntry, id: string): AclEntry {
  const { here, files, directories } = PLACES.find((place) => place.id === id) ?? entry;
  return rewritten({ ...entry, here, files, directories, one_level: entry.one_level && (files || directories) });
}

function textOf({ kind, mask, here, files, directories, one_level, inherited, who }: AclEntry): string {
  const flags = [files && 'OI', directories && 'CI', one_level && 'NP', !here && 'IO', inherited && 'ID']
    .filter(Boolean)
    .join('');
  return `(${kind === 'deny' ? 'D' : 'A'};${flags};0x${mask.toString(16)};;;${who?.sid ?? ''})`;
}

/** An entry whose text is made of its other fields. Those of kinds that are not understood here keep theirs. */
export function rewritten(entry: AclEntry): AclEntry {
  return entry.kind === 'other' ? entry : { ...entry, sddl: textOf(entry) };
}

/** An entry that begins with the rights to read. */
export function newEntry(who: { sid: string; name: string }, isDirectory: boolean): AclEntry {
  const [mask, everywhere] = [0x1200a9, isDirectory];
  const where = { here: true, files: everywhere, directories: everywhere, one_level: false, inherited: false };
  return rewritten({ who, kind: 'allow', mask, sddl: '', ...where });
}

/** Entries that came from above as ones of its own, which stay when nothing is inherited any more. */
export function madeOwn(entries: readonly AclEntry[]): AclEntry[] {
  return entries.map((entry) => (entry.inherited && entry.kind !== 'other' ? rewritten({ ...entry, inherited: false }) : entry));
}

/** In the order in which NT wants them: what is denied before what is allowed, and what is inherited after both. */
export function ordered(entries: readonly AclEntry[]): AclEntry[] {
  const rank = (entry: AclEntry) => (entry.inherited ? 2 : entry.kind === 'deny' ? 0 : 1);
  return entries.toSorted((one, other) => rank(one) - rank(other));
}

/** The text that sets a list. */
export function listText(entries: readonly AclEntry[], isProtected: boolean): string {
  return `D:${isProtected ? 'P' : ''}${ordered(entries)
    .map((entry) => entry.sddl)
    .join('')}`;
}

/** What was typed as the name of somebody: `user kim`, `group staff`, or a name alone. */
export function asked(typed: string): { kind: 'user' | 'group' | null; name: string } {
  const parts = /^(user|group)\s+(.+)$/i.exec(typed.trim());
  return parts ? { kind: parts[1]!.toLowerCase() as 'user' | 'group', name: parts[2]! } : { kind: null, name: typed.trim() };
}
