// Light, dark, or as the system is. The choice is kept in the browser.
export type Theme = 'system' | 'light' | 'dark';

const KEY = 'holdfast-theme';

class CurrentTheme {
  chosen = $state<Theme>(read());
  #system = $state(matchMedia('(prefers-color-scheme: dark)').matches);
  readonly dark = $derived(this.chosen === 'dark' || (this.chosen === 'system' && this.#system));

  constructor() {
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', (event) => (this.#system = event.matches));
    this.#apply();
  }

  set(theme: Theme): void {
    this.chosen = theme;
    localStorage.setItem(KEY, theme);
    this.#apply();
  }

  #apply(): void {
    if (this.chosen === 'system') delete document.documentElement.dataset['theme'];
    else document.documentElement.dataset['theme'] = this.chosen;
  }
}

function read(): Theme {
  const kept = localStorage.getItem(KEY);
  return kept === 'light' || kept === 'dark' ? kept : 'system';
}

export const theme = new CurrentTheme();

/** The colour that a custom property such as `--series-1` has now, for canvases. */
export function color(property: string): string {
  const probe = document.createElement('span');
  probe.style.color = `var(${property})`;
  document.body.append(probe);
  const computed = getComputedStyle(probe).color;
  probe.remove();
  return computed;
}
