// The health of the whole server as header, title and icon of the page show it: unknown while nothing is heard of the server.
import { live } from './live.svelte';
import { status } from './resources';
import { session } from './session.svelte';
import { healthWord, type Word } from './words';

const UNKNOWN: Word = { text: 'Unknown', tone: 'muted' };
/** The colour of the dot on the icon of the page. */
const DOTS: Partial<Record<Word['tone'], string>> = { ok: '#35b46b', warning: '#e8a317', error: '#e0372c', muted: '#8b979d' };

class CurrentHealth {
  /** Null for who is not logged in, and until the server was asked for the first time. */
  readonly word = $derived.by((): Word | null => {
    if (!session.current) return null;
    if (live.lost) return UNKNOWN;
    return status.value ? healthWord(status.value.health) : null;
  });
  /** What stands in front of the title: it is seen where the page is one of many tabs. */
  readonly mark = $derived(!this.word || this.word.tone === 'ok' ? '' : this.word === UNKNOWN ? '(?) ' : '(!) ');
  /** The icon of the page, as a data URL. */
  readonly icon = $derived(this.word ? icon(this.word.tone) : '/icon.svg');
}

function icon(tone: Word['tone']): string {
  const [ground, beams] = tone === 'muted' ? ['#5d686d', '#cfd6d9'] : ['#0f5f63', '#9fe3d5'];
  const svg =
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="${ground}"/>` +
    `<path d="M8 9h16M8 16h16M8 23h16" stroke="${beams}" stroke-width="4" stroke-linecap="round"/>` +
    `<path d="M12 6v20" stroke="#fff" stroke-width="3" stroke-linecap="round"/>` +
    `<circle cx="23.5" cy="23.5" r="8" fill="${DOTS[tone] ?? '#8b979d'}" stroke="#fff" stroke-width="2"/></svg>`;
  return `data:image/svg+xml,${encodeURIComponent(svg)}`;
}

export const health = new CurrentHealth();
