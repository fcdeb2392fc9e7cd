// Short messages about what was done, in the corner of the page; screen readers say them.
export interface Toast {
  id: number;
  text: string;
  tone: 'ok' | 'error';
  href?: string;
}

const SHOWN_MS = 8000;

class Toasts {
  all = $state.raw<Toast[]>([]);
  #next = 0;

  /** Says that something was done; `href` leads to it. */
  say(text: string, href?: string): void {
    this.#add({ id: 0, text, tone: 'ok', ...(href === undefined ? {} : { href }) });
  }

  /** Says that something failed where no dialog can. */
  fail(text: string): void {
    this.#add({ id: 0, text, tone: 'error' });
  }

  close(id: number): void {
    this.all = this.all.filter((toast) => toast.id !== id);
  }

  #add(toast: Toast): void {
    this.#next += 1;
    const id = this.#next;
    this.all = [...this.all.slice(-3), { ...toast, id }];
    setTimeout(() => this.close(id), SHOWN_MS);
  }
}

export const toasts = new Toasts();
