// That the daemon under test carries the console of these sources: an older one fails in ways that tell nothing of the cause.
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '..', '..');
const INDEX = join(ROOT, 'dist', 'index.html');

/** When a file or anything in a folder was changed last. Tests and types of the API are in no build. */
function changed(path: string): number {
  if (!statSync(path).isDirectory()) return /\.(test|d)\.ts$/.test(path) ? 0 : statSync(path).mtimeMs;
  return Math.max(0, ...readdirSync(path).map((name) => changed(join(path, name))));
}

/** Fails unless dist/ is as new as its sources, and is what the daemon serves. The names of its files carry their hashes. */
export async function carriesConsole(socketPath: string): Promise<void> {
  const sources = ['src', 'public', 'index.html', 'vite.config.ts', 'package-lock.json'].map((name) => changed(join(ROOT, name)));
  if (changed(INDEX) < Math.max(...sources)) throw new Error('dist/ is older than its sources; run: make console');
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
