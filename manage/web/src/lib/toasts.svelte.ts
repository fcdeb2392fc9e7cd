// Short messages in the corner of the page about what was done and what fails meanwhile; screen readers say them.
export interface Toast {
  id: number;
  text: string;
  tone: 'ok' | 'warning' | 'error';
  href?: string;
  /** What it is about: a later message about the same takes its place. */
  about?: string;
}

const SHOWN_MS = 8000;
/** What nobody asked for is shown for longer. */
const ALARM_MS = 30_000;
const MOST = 4;

class Toasts {
  all = $state.raw<Toast[]>([]);
  #next = 0;

  /** Says that something was done; `href` leads to it. */
  say(text: string, href?: string): void {
    this.#add({ id: 0, text, tone: 'ok', ...(href === undefined ? {} : { href }) }, SHOWN_MS);
  }

  /** Says that something failed where no dialog can. */
  fail(text: string): void {
    this.#add({ id: 0, text, tone: 'error' }, SHOWN_MS);
  }

  /** Says that something went wrong by itself. */
  alarm(text: string, tone: 'warning' | 'error', href: string, about: string): void {
    this.#add({ id: 0, text, tone, href, about }, ALARM_MS);
  }

  close(id: number): void {
    this.all = this.all.filter((toast) => toast.id !== id);
  }

  #add(toast: Toast, shownMs: number): void {
    this.#next += 1;
    const id = this.#next;
    const others = this.all.filter((other) => toast.about === undefined || other.about !== toast.about);
    this.all = [...others.slice(1 - MOST), { ...toast, id }];
    setTimeout(() => this.close(id), shownMs);
  }
}

export const toasts = new Toasts();
