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

/** A refusal in a sentence: the reason, then the next step. */
export function sentence(failure: ApiFailure): string {
  return failure.nextAction === '' ? failure.message : `${failure.message}; next: ${failure.nextAction}`;
}

/** The field that a refusal is about, by what its message speaks of: the first whose words it has. */
export function fieldByWords<Name extends string>(
  failure: ApiFailure,
  words: readonly (readonly [Name, RegExp])[],
): Name | undefined {
  return words.find(([, speaksOf]) => speaksOf.test(failure.message))?.[0];
}
