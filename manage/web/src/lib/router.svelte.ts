// Paths of the console and what they show. Links are plain `<a href>`; clicks on those of this console change the page in place.
import { routes, type Route } from '../routes';

export interface Match {
  route: Route;
  params: Record<string, string>;
}

/** Finds the route of a path, and its `:names`. */
export function match(path: string, among: readonly Route[] = routes): Match | null {
  const parts = path.split('/').filter((part) => part !== '');
  for (const route of among) {
    const wanted = route.path.split('/').filter((part) => part !== '');
    if (wanted.length !== parts.length) continue;
    const params: Record<string, string> = {};
    const fits = wanted.every((name, at) => {
      const part = parts[at] ?? '';
      if (!name.startsWith(':')) return name === part;
      params[name.slice(1)] = decode(part);
      return true;
    });
    if (fits) return { route, params };
  }
  return null;
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** A path of parts, each of which may hold any character. */
export function pathTo(...parts: string[]): string {
  return '/' + parts.map(encodeURIComponent).join('/');
}

/** The path of a space's page, from its name `POOL/SPACE`. */
export function spacePath(name: string): string {
  return pathTo('spaces', ...name.split('/'));
}

/** The path of a volume's page, from its name `POOL/VOLUME`. */
export function volumePath(name: string): string {
  return pathTo('volumes', ...name.split('/'));
}

class Router {
  path = $state(typeof location === 'undefined' ? '/' : location.pathname);
  query = $state.raw(new URLSearchParams(typeof location === 'undefined' ? '' : location.search));
  readonly match = $derived(match(this.path));

  go(to: string, replace = false): void {
    const url = new URL(to, location.origin);
    history[replace ? 'replaceState' : 'pushState'](null, '', url);
    this.#read();
    window.scrollTo(0, 0);
  }

  /** Keeps a choice of this page in its path, where back and forward and a copied link find it; nothing for none. */
  keep(name: string, value: string): void {
    const url = new URL(location.href);
    if (value === '') url.searchParams.delete(name);
    else url.searchParams.set(name, value);
    if (url.href === location.href) return;
    history.replaceState(null, '', url);
    this.#read();
  }

  /** This page with another choice and all its other ones; null takes the choice back. */
  with(name: string, value: string | null): string {
    const query = new URLSearchParams(this.query);
    if (value === null) query.delete(name);
    else query.set(name, value);
    const text = query.toString();
    return text === '' ? this.path : `${this.path}?${text}`;
  }

  /** Follows links and the browser's own back and forward until the function that this answers is called. */
  follow(): () => void {
    const read = () => this.#read();
    const click = (event: MouseEvent) => this.#click(event);
    window.addEventListener('popstate', read);
    document.addEventListener('click', click);
    return () => {
      window.removeEventListener('popstate', read);
      document.removeEventListener('click', click);
    };
  }

  #read(): void {
    this.path = location.pathname;
    this.query = new URLSearchParams(location.search);
  }

  #click(event: MouseEvent): void {
    const link = event.target instanceof Element ? event.target.closest('a') : null;
    const other = event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey;
    if (!link || other || event.defaultPrevented || link.target !== '' || link.hasAttribute('download')) return;
    const url = new URL(link.href, location.href);
    if (url.origin !== location.origin || (url.pathname === location.pathname && url.hash !== '') || !match(url.pathname)) return;
    event.preventDefault();
    this.go(url.href);
  }
}

export const router = new Router();
