// What the console shows, kept current by the server's live stream.
//
// A `Resource` is one answer of the API. While something on the page watches it, it is fetched again whenever the stream says that
// one of its kinds changed; a stream begins with saying so of all lists, so nothing is missed. No page asks on a timer. Where there is
// no stream, everything that is watched is fetched each second.
import { asFailure, type ApiFailure } from './api/client';
import type { Event, LiveSample } from './api/types';

export type Kind = 'disks' | 'pools' | 'spaces' | 'exports' | 'jobs' | 'status' | 'accounts' | 'events';

const POLL_MS = 1000;
const RETRY_MS = 10_000;
const KEPT_SAMPLES = 600;

const watched = new Set<Resource<unknown>>();

/** One answer of the API, kept current while it is watched: `$effect(() => resource.watch())`. */
export class Resource<T> {
  value = $state.raw<T | undefined>(undefined);
  failure = $state.raw<ApiFailure | null>(null);
  readonly kinds: readonly Kind[];
  readonly #load: (signal: AbortSignal) => Promise<T>;
  #watchers = 0;
  #running: AbortController | null = null;
  #again = false;

  constructor(kinds: readonly Kind[], load: (signal: AbortSignal) => Promise<T>) {
    this.kinds = kinds;
    this.#load = load;
  }

  /** Keeps it current until the function that this answers is called. */
  watch(): () => void {
    this.#watchers += 1;
    if (this.#watchers === 1) {
      watched.add(this as Resource<unknown>);
      void this.refresh();
    }
    return () => {
      this.#watchers -= 1;
      if (this.#watchers > 0) return;
      watched.delete(this as Resource<unknown>);
      this.#running?.abort();
    };
  }

  /** Fetches it now; if that is under way, once more after it. */
  async refresh(): Promise<void> {
    if (this.#running) {
      this.#again = true;
      return;
    }
    do {
      this.#again = false;
      const running = new AbortController();
      this.#running = running;
      try {
        this.value = await this.#load(running.signal);
        this.failure = null;
      } catch (thrown) {
        if (!running.signal.aborted) this.failure = asFailure(thrown);
      } finally {
        this.#running = null;
      }
    } while (this.#again && this.#watchers > 0);
  }
}

/** Fetches again what is watched and is of one of these kinds; all of it, if none is given. */
export function refresh(kinds?: readonly Kind[]): void {
  for (const resource of watched) if (!kinds || resource.kinds.some((kind) => kinds.includes(kind))) void resource.refresh();
}

class Live {
  /** Whether the stream is up. */
  connected = $state(false);
  /** The last samples, oldest first. */
  samples = $state.raw<LiveSample[]>([]);
  readonly latest = $derived(this.samples.at(-1));
  /** Calls these for each event that happens. */
  readonly listeners = new Set<(event: Event) => void>();
  #source: EventSource | null = null;
  #poll: ReturnType<typeof setInterval> | null = null;
  #retry: ReturnType<typeof setTimeout> | null = null;

  /** Follows the stream until the function that this answers is called. A page that nobody sees follows nothing. */
  follow(): () => void {
    const turn = () => (document.hidden ? this.#close() : this.#open());
    document.addEventListener('visibilitychange', turn);
    turn();
    return () => {
      document.removeEventListener('visibilitychange', turn);
      this.#close();
    };
  }

  #open(): void {
    if (this.#source) return;
    const source = new EventSource('/api/v1/live');
    this.#source = source;
    source.addEventListener('open', () => {
      this.connected = true;
      this.#stopPolling();
      refresh(['events']);
    });
    source.addEventListener('sample', (message) => {
      this.samples = [...this.samples.slice(1 - KEPT_SAMPLES), JSON.parse(message.data) as LiveSample];
    });
    source.addEventListener('changed', (message) => refresh((JSON.parse(message.data) as { kinds: Kind[] }).kinds));
    source.addEventListener('noted', (message) => {
      refresh(['events']);
      for (const listener of this.listeners) listener(JSON.parse(message.data) as Event);
    });
    source.addEventListener('error', () => {
      this.connected = false;
      this.#poll ??= setInterval(() => refresh(), POLL_MS);
      if (source.readyState !== EventSource.CLOSED) return;
      this.#source = null;
      this.#retry = setTimeout(() => this.#open(), RETRY_MS);
    });
  }

  #close(): void {
    this.#source?.close();
    this.#source = null;
    this.connected = false;
    this.#stopPolling();
    if (this.#retry) clearTimeout(this.#retry);
  }

  #stopPolling(): void {
    if (this.#poll) clearInterval(this.#poll);
    this.#poll = null;
  }
}

export const live = new Live();
