// Accounts, tokens and the audit log, as the API has them.
import type { components } from '../../lib/api/schema';
import type { Role } from '../../lib/api/types';

type Schemas = components['schemas'];

export type Account = Schemas['Account'];
export type AuditRecord = Schemas['AuditRecord'];
export type Token = Schemas['Token'];
export type TokenCreated = Schemas['TokenCreated'];

export const ROLES: readonly { role: Role; text: string }[] = [
  { role: 'viewer', text: 'Viewer: sees everything but accounts and the audit log' },
  { role: 'operator', text: 'Operator: daily work such as jobs, spaces and exports' },
  { role: 'administrator', text: 'Administrator: everything' },
];

const ORDER: readonly Role[] = ['viewer', 'operator', 'administrator'];

/** The roles that one who has `most` may give away. */
export function rolesUpTo(most: Role): typeof ROLES {
  return ROLES.slice(0, ORDER.indexOf(most) + 1);
}
