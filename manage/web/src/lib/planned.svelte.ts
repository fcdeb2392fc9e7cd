// What the server says would come of something that is being typed.
import { asFailure, type ApiFailure } from './api/client';

const PAUSE_MS = 250;

/** A plan that is asked for anew shortly after what it depends on has changed. To be made while a component is set up. */
export class Planned<Plan> {
  plan = $state.raw<Plan | null>(null);
  /** Why there is no plan. */
  refused = $state.raw<ApiFailure | null>(null);

  /** `question` reads what the plan depends on and answers how to ask for it; nothing while there is nothing to plan. */
  constructor(question: () => ((signal: AbortSignal) => Promise<Plan>) | null) {
    $effect(() => {
      // A plan, and why there is none, hold for just what they were asked for.
      this.plan = null;
      this.refused = null;
      const ask = question();
      if (!ask) return;
      const asked = new AbortController();
      const timer = setTimeout(async () => {
        try {
          this.plan = await ask(asked.signal);
        } catch (thrown) {
          if (asked.signal.aborted) return;
          this.refused = asFailure(thrown);
        }
      }, PAUSE_MS);
      return () => {
        clearTimeout(timer);
        asked.abort();
      };
    });
  }
}
