// Who is logged in, and what they may do. The server decides; the console only spares people what it would refuse.
import { ApiFailure, call, onUnauthenticated, setCsrf } from './api/client';
import type { Role, Session } from './api/types';

const RANK: Record<Role, number> = { viewer: 0, operator: 1, administrator: 2 };

class CurrentSession {
  current = $state.raw<Session | null>(null);
  /** False until the server was asked who this is. */
  known = $state(false);

  constructor() {
    onUnauthenticated(() => this.set(null));
  }

  set(session: Session | null): void {
    this.current = session;
    this.known = true;
    setCsrf(session?.csrf ?? null);
  }

  async load(): Promise<void> {
    try {
      this.set(await call('get', '/session'));
    } catch (thrown) {
      if (thrown instanceof ApiFailure && thrown.status === 401) this.set(null);
      else throw thrown;
    }
  }

  async end(): Promise<void> {
    await call('delete', '/session');
    this.set(null);
  }

  /** Whether this account has `role` or a higher one. */
  may(role: Role): boolean {
    return this.current !== null && RANK[this.current.role] >= RANK[role];
  }
}

export const session = new CurrentSession();
