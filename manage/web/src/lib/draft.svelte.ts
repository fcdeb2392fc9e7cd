// What was entered in a wizard and not sent: kept in the tab, so that it is there again after Esc, a reload, back, or a session that
// ended. Each account has its own. Nothing secret belongs here.
import { session } from './session.svelte';

/** Where it is kept. */
function place(wizard: string): string {
  return `holdfast-draft ${session.current?.account ?? ''} ${wizard}`;
}

function read(wizard: string): Record<string, unknown> | null {
  try {
    const kept: unknown = JSON.parse(sessionStorage.getItem(place(wizard)) ?? 'null');
    return typeof kept === 'object' && kept !== null && !Array.isArray(kept) ? (kept as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}

/** Whether two values are of one kind; what may be null fits everything. */
const alike = (one: unknown, other: unknown) => one === null || other === null || typeof one === typeof other;

export class Draft<T extends object> {
  readonly #wizard: string;
  readonly #usual: T;
  /** Whether something was there when the wizard opened, and has not been given up. */
  restored = $state(false);

  constructor(wizard: string, usual: T) {
    this.#wizard = wizard;
    this.#usual = usual;
  }

  /** What was entered before, else what a wizard begins with. */
  load(): T {
    const kept = read(this.#wizard);
    if (kept === null) return { ...this.#usual };
    this.restored = true;
    const known = Object.entries(this.#usual).map(([name, usual]) => [
      name,
      name in kept && alike(usual, kept[name]) ? kept[name] : usual,
    ]);
    return Object.fromEntries(known) as T;
  }

  /** Keeps what is entered; what a wizard begins with need not be kept. */
  save(entered: T): void {
    try {
      if (JSON.stringify(entered) === JSON.stringify(this.#usual)) sessionStorage.removeItem(place(this.#wizard));
      else sessionStorage.setItem(place(this.#wizard), JSON.stringify(entered));
    } catch {
      // A browser without room or leave to keep it: then it is not kept.
    }
  }

  /** Gives it up: it was sent, or is begun anew. Answers what a wizard begins with. */
  clear(): T {
    sessionStorage.removeItem(place(this.#wizard));
    this.restored = false;
    return { ...this.#usual };
  }
}
