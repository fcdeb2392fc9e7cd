// What the server says a space would be, asked shortly after each change of a form: an answer to an earlier form never replaces a later one.
import { asFailure, call, type ApiFailure } from '../lib/api/client';
import type { SpaceOption, SpacePlan } from '../lib/api/types';
import type { Problems } from '../lib/form';
import type { CreateSpace } from './types';

const ASK_AFTER_MS = 200;
const BLOCK = 4096;

/** What to ask for, as text that changes only when the question does; null while the form is not right yet. */
export function question(request: CreateSpace, problems: Problems): string | null {
  if (Object.entries(problems).some(([field, problem]) => problem && field !== 'size')) return null;
  // Without a size, that of one block: its figures are those of any other.
  return JSON.stringify({ ...request, size_bytes: problems['size'] ? BLOCK : request.size_bytes });
}

/** The form's layout that an option is. */
export function resilienceOf(option: SpaceOption): string {
  return option.layout === 'simple'
    ? 'simple'
    : option.layout === 'mirror'
      ? `mirror-${option.copies}`
      : `parity-${option.parity}`;
}

export class Preview {
  plan = $state.raw<SpacePlan | null>(null);
  refusal = $state.raw<ApiFailure | null>(null);
  /** How much there is room for in the layout that is chosen. */
  readonly room = $derived(this.plan?.options.find((option) => option.chosen)?.usable_bytes);

  /** Asks, unless the function that this answers is called before: `$effect(() => preview.ask(asked))`. */
  ask(asked: string | null): (() => void) | undefined {
    if (asked === null) return undefined;
    const body = JSON.parse(asked) as CreateSpace;
    const running = new AbortController();
    const timer = setTimeout(async () => {
      try {
        this.plan = await call('post', '/spaces/plan', { body, signal: running.signal });
        this.refusal = null;
      } catch (thrown) {
        if (running.signal.aborted) return;
        this.plan = null;
        this.refusal = asFailure(thrown);
      }
    }, ASK_AFTER_MS);
    return () => {
      clearTimeout(timer);
      running.abort();
    };
  }
}
