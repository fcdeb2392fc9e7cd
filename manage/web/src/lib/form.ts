// Messages at the fields of a form: what the console sees itself, and what the server refuses.
import { getContext, setContext } from 'svelte';
import type { ApiFailure } from './api/client';

/** Messages by the names of fields; a field without one is right. */
export type Problems = Record<string, string | undefined>;

const KEY = Symbol('form');

/** Lets the fields below find the messages at them. */
export function provideProblems(problem: (name: string) => string | undefined): void {
  setContext(KEY, problem);
}

/** Finds the message at a field, in the form around it. */
export function formProblem(): (name: string) => string | undefined {
  return getContext<((name: string) => string | undefined) | undefined>(KEY) ?? (() => undefined);
}

/** Whether this is within a form. */
export function inForm(): boolean {
  return getContext(KEY) !== undefined;
}

/** A refusal in a sentence: the reason, then the next step. */
export function sentence(failure: ApiFailure): string {
  return failure.nextAction === '' ? failure.message : `${failure.message}; next: ${failure.nextAction}`;
}

/** The form's field that a refusal is about: `names` has it for each field of the request. */
export function fieldAt<Name extends string>(
  failure: Pick<ApiFailure, 'field'>,
  names: Readonly<Record<string, Name>>,
): Name | undefined {
  return failure.field !== null && Object.hasOwn(names, failure.field) ? names[failure.field] : undefined;
}
