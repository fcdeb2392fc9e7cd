// Requests to the API, typed by its document. Every refusal becomes an `ApiFailure`, which names object, reason and next step;
// one that says that nobody is logged in also ends the session, wherever it was met.
import type { paths } from './schema';
import type { ApiError } from './types';

const PREFIX = '/api/v1';

type Method = 'get' | 'post' | 'put' | 'patch' | 'delete';
type Route<P extends string> = `/api/v1${P}` extends keyof paths ? paths[`/api/v1${P}`] : never;
export type Path = keyof paths extends infer K ? (K extends `/api/v1${infer P}` ? P : never) : never;

type Json<R> = R extends { content: { 'application/json': infer B } } ? B : never;
type Answer<O> = O extends { responses: infer R }
  ? { [S in keyof R]: S extends 200 | 201 | 202 ? Json<R[S]> : never }[keyof R]
  : never;
type Body<O> = O extends { requestBody: { content: { 'application/json': infer B } } } ? { body: B } : { body?: undefined };
type InPath<O> = O extends { parameters: { path: infer A } } ? { path: A } : { path?: undefined };
type InQuery<O> = O extends { parameters: { query?: infer Q } } ? { query?: Q } : { query?: undefined };
type Given = { body?: unknown; path?: object; query?: object; signal?: AbortSignal };
// Of each operation by itself: the parts of all of them with each other are too many for the compiler.
type Options<O> = O extends unknown ? Body<O> & InPath<O> & InQuery<O> & { signal?: AbortSignal } : never;

/** Why a request was refused or failed; `unreachable` where nothing answered. */
export type FailureCode = ApiError['code'] | 'unreachable';

/** A request that was refused or failed. */
export class ApiFailure extends Error {
  readonly status: number;
  readonly code: FailureCode;
  readonly object: string;
  readonly nextAction: string;
  /** The field of the request that it is about, by its JSON name: `qos.max_iops`. */
  readonly field: string | null;

  constructor(status: number, error: Omit<ApiError, 'code' | 'field'> & { code: FailureCode; field?: string | null }) {
    super(error.message);
    this.name = 'ApiFailure';
    this.status = status;
    this.code = error.code;
    this.object = error.object;
    this.nextAction = error.next_action;
    this.field = error.field ?? null;
  }
}

/** What went wrong, as an `ApiFailure` whatever was thrown. */
export function asFailure(thrown: unknown): ApiFailure {
  if (thrown instanceof ApiFailure) return thrown;
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  return new ApiFailure(0, { code: 'failed', object: 'console', message, next_action: 'reload the page and try again' });
}

const guard = { csrf: null as string | null, onUnauthenticated: () => {} };

/** Sets the token that goes with every change, from the session. */
export function setCsrf(token: string | null): void {
  guard.csrf = token;
}

/** Sets what happens when an answer says that nobody is logged in. */
export function onUnauthenticated(then: () => void): void {
  guard.onUnauthenticated = then;
}

async function refusal(response: Response): Promise<ApiFailure> {
  const text = await response.text();
  try {
    return new ApiFailure(response.status, (JSON.parse(text) as { error: ApiError }).error);
  } catch {
    const message = `the server answered ${response.status} ${response.statusText}`.trim();
    return new ApiFailure(response.status, {
      code: 'failed',
      object: 'server',
      message,
      next_action: 'see the log of the daemon',
    });
  }
}

/** A request by path, for what the document does not describe. */
export async function request<T>(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  const headers: Record<string, string> = { Accept: 'application/json' };
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  if (guard.csrf !== null && method !== 'GET') headers['X-CSRF-Token'] = guard.csrf;
  const init: RequestInit = { method, headers, credentials: 'same-origin' };
  if (body !== undefined) init.body = JSON.stringify(body);
  if (signal) init.signal = signal;
  let response: Response;
  try {
    response = await fetch(PREFIX + path, init);
  } catch (thrown) {
    if (signal?.aborted) throw thrown;
    const message = 'it does not answer';
    throw new ApiFailure(0, { code: 'unreachable', object: 'server', message, next_action: 'check that the daemon runs' });
  }
  if (!response.ok) {
    const failure = await refusal(response);
    if (failure.status === 401) guard.onUnauthenticated();
    throw failure;
  }
  return (response.status === 204 ? undefined : await response.json()) as T;
}

/** Fills `{names}` of a path and appends the query; what is null or undefined is left out. */
export function fill(path: string, inPath: object = {}, query: object = {}): string {
  let filled = path;
  for (const [name, value] of Object.entries(inPath)) filled = filled.replace(`{${name}}`, encodeURIComponent(String(value)));
  const wanted = Object.entries(query).filter(([, value]) => value !== null && value !== undefined);
  const text = new URLSearchParams(wanted.map(([name, value]) => [name, String(value)])).toString();
  return text === '' ? filled : `${filled}?${text}`;
}

/** A request as the document describes it: `call('patch', '/pools/{pool}', { path: { pool }, body })`. */
export function call<P extends Path, M extends keyof Route<P> & Method>(
  method: M,
  path: P,
  ...[options]: object extends Options<Route<P>[M]> ? [Options<Route<P>[M]>?] : [Options<Route<P>[M]>]
): Promise<Answer<Route<P>[M]>> {
  const given = (options as unknown as Given | undefined) ?? {};
  return request(method.toUpperCase(), fill(path as string, given.path, given.query), given.body, given.signal);
}
