// What the console shows, kept current by the server's live stream, and what is known of how current that is.
//
// A `Resource` is one answer of the API. While something on the page watches it, it is fetched again whenever the stream says that
// one of its kinds changed, and when a stream begins, so nothing is missed. No page asks on a timer. Where there is no stream,
// everything that is watched is fetched each second.
//
// The server is never silent for more than three seconds. When nothing was heard of it for `SILENCE_MS`, neither on the stream nor as
// an answer, `live.lost` says since when: what is shown is that old, and nothing may call it current. It is tried again until it answers.
import { asFailure, type ApiFailure } from './api/client';
import type { Event, LiveSample } from './api/types';

export type Kind =
  'disks' | 'pools' | 'spaces' | 'volumes' | 'exports' | 'targets' | 'jobs' | 'status' | 'accounts' | 'notifications' | 'events';

const POLL_MS = 1000;
const CHECK_MS = 1000;
const SILENCE_MS = 7000;
/** How long an attempt to reach the server again takes at most. */
const ATTEMPT_MS = 4000;
const KEPT_SAMPLES = 600;

const watched = new Set<Resource<unknown>>();

/** One answer of the API, kept current while it is watched: `$effect(() => resource.watch())`. */
export class Resource<T> {
  value = $state.raw<T | undefined>(undefined);
  /** When the value came, in milliseconds since the epoch. */
  loaded = $state(0);
  failure = $state.raw<ApiFailure | null>(null);
  readonly kinds: readonly Kind[];
  readonly #load: (signal: AbortSignal) => Promise<T>;
  #watchers = 0;
  #running: AbortController | null = null;
  #again = false;
  #done: Promise<void> = Promise.resolve();

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
      this.abort();
    };
  }

  /** Waits no longer for what is under way. */
  abort(): void {
    this.#running?.abort();
  }

  /** Fetches it now; if that is under way, once more after it. */
  refresh(): Promise<void> {
    if (this.#running) this.#again = true;
    else this.#done = this.#fetch();
    return this.#done;
  }

  async #fetch(): Promise<void> {
    do {
      this.#again = false;
      const running = new AbortController();
      this.#running = running;
      try {
        this.value = await this.#load(running.signal);
        this.loaded = Date.now();
        this.failure = null;
        live.hear();
      } catch (thrown) {
        if (!running.signal.aborted) this.#fail(asFailure(thrown));
      } finally {
        this.#running = null;
      }
    } while (this.#again && this.#watchers > 0);
  }

  /** That the server cannot be reached is said once for the whole page. */
  #fail(failure: ApiFailure): void {
    const unreachable = failure.code === 'unreachable';
    if (unreachable) live.miss();
    else live.hear();
    this.failure = unreachable && this.value !== undefined ? null : failure;
  }
}

/** Fetches again what is watched and is of one of these kinds; all of it, if none is given. */
export function refresh(kinds?: readonly Kind[]): void {
  for (const resource of watched) if (!kinds || resource.kinds.some((kind) => kinds.includes(kind))) void resource.refresh();
}

class Live {
  /** Whether the stream is up. */
  connected = $state(false);
  /** Whether a stream began, or could not: what is asked from then on need not be asked again at once, as all else is when it begins. */
  begun = $state(false);
  /** Since when nothing is heard of the server; null while what is shown is current. */
  lost = $state.raw<Date | null>(null);
  /** The last samples, oldest first. */
  samples = $state.raw<LiveSample[]>([]);
  readonly latest = $derived(this.samples.at(-1));
  /** Calls these for each event that happens. */
  readonly listeners = new Set<(event: Event) => void>();
  #source: EventSource | null = null;
  #poll: ReturnType<typeof setInterval> | null = null;
  #heard = 0;
  #tried = 0;

  /** Follows the stream until the function that this answers is called; also on a page that nobody sees, for its title tells of health. */
  follow(): () => void {
    const check = () => this.#check();
    const timer = setInterval(check, CHECK_MS);
    document.addEventListener('visibilitychange', check);
    this.#heard = Date.now();
    this.#open();
    return () => {
      clearInterval(timer);
      document.removeEventListener('visibilitychange', check);
      this.#close();
      this.#stopPolling();
      this.lost = null;
    };
  }

  /** The server said something. */
  hear(): void {
    this.#heard = Date.now();
    this.lost = null;
  }

  /** The server cannot be reached. */
  miss(): void {
    if (!this.connected && this.#heard > 0) this.lost ??= new Date(this.#heard);
  }

  #check(): void {
    const now = Date.now();
    if (now - this.#heard >= SILENCE_MS) this.lost ??= new Date(this.#heard);
    if ((this.#source && !this.lost) || now - this.#tried < ATTEMPT_MS) return;
    // What hangs on a connection that is cut would hang for minutes.
    for (const resource of watched) resource.abort();
    this.#close();
    this.#open();
    this.#startPolling();
  }

  #open(): void {
    this.#tried = Date.now();
    const source = new EventSource('/api/v1/live');
    this.#source = source;
    const on = (name: string, then: (data: string) => void) =>
      source.addEventListener(name, (message) => {
        this.hear();
        then((message as MessageEvent<string>).data);
      });
    on('open', () => {
      this.connected = true;
      this.#stopPolling();
      refresh();
      this.begun = true;
    });
    on('sample', (data) => (this.samples = [...this.samples.slice(1 - KEPT_SAMPLES), JSON.parse(data) as LiveSample]));
    on('changed', (data) => refresh((JSON.parse(data) as { kinds: Kind[] }).kinds));
    on('noted', (data) => {
      refresh(['events']);
      for (const listener of this.listeners) listener(JSON.parse(data) as Event);
    });
    on('beat', () => {});
    source.addEventListener('error', () => {
      this.connected = false;
      this.#startPolling();
      if (source.readyState === EventSource.CLOSED && this.#source === source) this.#source = null;
    });
  }

  #close(): void {
    this.#source?.close();
    this.#source = null;
    this.connected = false;
  }

  #startPolling(): void {
    this.begun = true;
    this.#poll ??= setInterval(() => refresh(), POLL_MS);
  }

  #stopPolling(): void {
    if (this.#poll) clearInterval(this.#poll);
    this.#poll = null;
  }
}

export const live = new Live();
