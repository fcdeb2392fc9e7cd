// Volumes on directories of the machine that tests run on.
import { accessSync, constants } from 'node:fs';
import type { Server } from './server.ts';

/** Mounting needs root and the kernel's FUSE. */
export function mountable(): boolean {
  try {
    accessSync('/dev/fuse', constants.R_OK | constants.W_OK);
    return process.getuid?.() === 0;
  } catch {
    return false;
  }
}

/** Mounts a volume, or unmounts it where no directory is given. */
export async function mount(server: Server, volume: string, directory?: string): Promise<void> {
  const [method, body] = directory === undefined ? ['DELETE', undefined] : ['PUT', { directory }];
  const { status, body: said } = await server.ask(method, `/volumes/${volume}/mount`, body);
  if (status >= 300) throw new Error(`${volume}: ${status} ${JSON.stringify(said)}`);
}
