// That the daemon under test carries the console of these sources: an older one fails in ways that tell nothing of the cause.
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '..', '..');
const DIST = join(ROOT, 'dist');
const INDEX = join(DIST, 'index.html');

/** Whether pages come from dist/ and not from the daemon, which then need not be built again for each change of the console. */
export const FROM_DIST = process.env['HOLDFAST_CONSOLE'] === 'dist';

const TYPES: Record<string, string> = { html: 'text/html', js: 'text/javascript', css: 'text/css', svg: 'image/svg+xml' };

/** What the daemon would answer for a path of the console, taken from dist/. */
export function fromDist(path: string): { body: Buffer; contentType: string } {
  const known = readdirSync(DIST, { recursive: true }).map(String);
  const name = known.includes(path.slice(1)) && path.includes('.') ? path.slice(1) : 'index.html';
  return { body: readFileSync(join(DIST, name)), contentType: TYPES[name.split('.').at(-1) ?? ''] ?? 'application/octet-stream' };
}

/** When a file or anything in a folder was changed last. Tests and types of the API are in no build. */
function changed(path: string): number {
  if (!statSync(path).isDirectory()) return /\.(test|d)\.ts$/.test(path) ? 0 : statSync(path).mtimeMs;
  return Math.max(0, ...readdirSync(path).map((name) => changed(join(path, name))));
}

/** Fails unless dist/ is as new as its sources, and is what the daemon serves. The names of its files carry their hashes. */
export async function carriesConsole(socketPath: string): Promise<void> {
  const sources = ['src', 'public', 'index.html', 'vite.config.ts', 'package-lock.json'].map((name) => changed(join(ROOT, name)));
  if (changed(INDEX) < Math.max(...sources)) throw new Error('dist/ is older than its sources; run: make console');
  if (FROM_DIST) return;
  const served = await new Promise<string>((resolve, reject) => {
    const sent = request({ socketPath, path: '/' }, (response) => {
      let page = '';
      response.setEncoding('utf8');
      response.on('data', (chunk: string) => (page += chunk));
      response.on('end', () => resolve(page));
    });
    sent.once('error', reject);
    sent.end();
  });
  if (served !== readFileSync(INDEX, 'utf8')) {
    throw new Error('HOLDFAST_BIN carries another console than dist/; build the daemon again, after: make console');
  }
}
