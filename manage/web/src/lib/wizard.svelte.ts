// Wizards stand in the address of their page, as `?wizard=space`: a reload finds them open, and back closes them.
import type { Role } from './api/types';
import { router } from './router.svelte';
import { session } from './session.svelte';

const NAME = 'wizard';

export type WizardName = 'pool' | 'space' | 'volume' | 'export' | 'target';

/** The address of this page, with a wizard or without. */
function address(wizard: WizardName | null): string {
  const query = new URLSearchParams(router.query);
  if (wizard) query.set(NAME, wizard);
  else query.delete(NAME);
  const text = query.toString();
  return text === '' ? router.path : `${router.path}?${text}`;
}

/** Whether a wizard is open, for those who have the role that it needs. */
export function isOpen(wizard: WizardName, role: Role): boolean {
  return router.query.get(NAME) === wizard && session.may(role);
}

export function openWizard(wizard: WizardName): void {
  router.go(address(wizard));
}

export function closeWizard(): void {
  if (router.query.has(NAME)) router.go(address(null), true);
}

/** Goes on from a wizard that is done: back does not open it again. */
export function leaveWizard(to: string): void {
  router.go(to, router.query.has(NAME));
}
