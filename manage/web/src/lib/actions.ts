// What can be done with an object, and why something cannot be done now.
import type { Role } from './api/types';
import type { IconName } from './icons';
import { session } from './session.svelte';

export interface Action {
  text: string;
  icon?: IconName;
  /** The role that it needs. */
  role: Role;
  danger?: boolean;
  /** The menu in which it stands where others are buttons, such as `Care`. */
  group?: string;
  /** Why it cannot be done now, whatever the role. */
  blocked?: string | undefined;
  run: () => void;
}

/** Makes actions that show something, such as a dialog; operators may do them, unless `more` says otherwise. */
export function showing<What>(show: (what: What) => void) {
  return (text: string, what: What, more: Partial<Action> = {}): Action => ({
    text,
    role: 'operator',
    run: () => show(what),
    ...more,
  });
}

/** Why this account cannot do it now. */
export function blockedBy(action: Action): string | undefined {
  return session.may(action.role) ? action.blocked : `Needs the role ${action.role}`;
}
