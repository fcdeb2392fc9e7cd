// A volume as the wizard's form holds it, and as the API takes it.
import type { ApiFailure } from '../lib/api/client.ts';
import { fieldAt, type Problems } from '../lib/form.ts';
import { nameProblem } from './names.ts';
import { requestOf, spaceField, spaceProblems, type SpaceForm } from './space.ts';
import type { CreateVolume } from './types.ts';

export interface VolumeForm {
  pool: string;
  /** Null until one was typed. */
  name: string | null;
  /** On a new space of its own, or on one that exists. */
  place: string;
  /** `POOL/SPACE` that exists; empty for the first that can be chosen. */
  on: string;
  resilience: string;
  size: string;
  thin: boolean;
  /** Whether the new space has checksums. */
  checksums: boolean;
  caseSensitive: boolean;
}

/** The new space of a volume: it is called like the volume; what is not asked for is left to the server. */
function spaceOf({ pool, name, resilience, size, thin, checksums }: VolumeForm): SpaceForm {
  const usual = { columns: '', interleave: 262_144, journal: '', enclosures: false };
  return { pool, name, resilience, size, thin, checksums, ...usual };
}

/** What is wrong at each field, as far as the console can tell. */
export function volumeProblems(form: VolumeForm): Problems {
  if (form.place === 'new') return spaceProblems(spaceOf(form));
  return {
    pool: form.pool === '' ? 'Create a pool first.' : undefined,
    name: nameProblem(form.name ?? ''),
    on: form.on === '' ? `Pool ${form.pool} has no space that is free; create one, or choose a new space.` : undefined,
  };
}

/** The request for the new space of a form. */
export const ownSpace = (form: VolumeForm) => requestOf(spaceOf(form));

/** The request of a form. */
export function volumeRequest(form: VolumeForm): CreateVolume {
  return {
    name: `${form.pool}/${form.name ?? ''}`,
    ...(form.place === 'new' ? { space: ownSpace(form) } : { on: form.on }),
    ...(form.caseSensitive ? { case_sensitive: true } : {}),
  };
}

/** The field that a refusal of the server is about. */
export function volumeField(failure: Pick<ApiFailure, 'code' | 'field'>): string | undefined {
  const own = fieldAt(failure, { on: 'on', case_sensitive: 'case' });
  const { code, field } = failure;
  return own ?? spaceField({ code, field: field?.replace(/^space\./, '') ?? null });
}
