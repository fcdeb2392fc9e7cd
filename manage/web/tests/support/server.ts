// A daemon of its own for a test: the real binary on file disks, with HTTPS, in a folder that goes with it.
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { carriesConsole } from './built.ts';

/** How long tests wait for what should happen, on a machine whose cores are all busy. */
export const PATIENCE_MS = 90_000;
export const PASSWORD = 'correct horse battery';

/** The binary under test, or nothing: then there is nothing to test the console against. */
export const BINARY = process.env['HOLDFAST_BIN'];

export interface Answer<T = unknown> {
  status: number;
  body: T;
}

export class Server {
  readonly folder: string;
  readonly socket: string;
  /** Where the console is, such as `https://127.0.0.1:41234`. */
  origin = '';
  /** The link that makes the first account. */
  setupLink = '';
  #daemon: ChildProcess | undefined;

  private constructor() {
    this.folder = mkdtempSync(join(tmpdir(), 'holdfast-console-'));
    this.socket = join(this.folder, 'holdfast.sock');
    mkdirSync(join(this.folder, 'disks'));
    mkdirSync(join(this.folder, 'away'));
  }

  /** Starts a daemon with so many blank disks. */
  static async start(disks: number, size = '256MiB'): Promise<Server> {
    const server = new Server();
    await server.#start();
    try {
      await carriesConsole(server.socket);
    } catch (stale) {
      await server.stop();
      throw stale;
    }
    for (let number = 1; number <= disks; number += 1) {
      await server.post('/disks', { path: server.disk(number), size_bytes: sizeOf(size) });
    }
    return server;
  }

  disk(number: number): string {
    return join(this.folder, 'disks', `disk${number}.img`);
  }

  get nbdUri(): string {
    return `nbd+unix:///NAME?socket=${join(this.folder, 'nbd.sock')}`;
  }

  async #start(): Promise<void> {
    if (!BINARY) throw new Error('HOLDFAST_BIN names no binary');
    const options = [
      '--state',
      join(this.folder, 'state'),
      '--nbd',
      `unix:${join(this.folder, 'nbd.sock')}`,
      '--iscsi',
      '127.0.0.1:0',
      '--reactors',
      '1',
    ];
    const daemon = spawn(BINARY, ['--socket', this.socket, 'serve', ...options, '--https', '127.0.0.1:0'], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#daemon = daemon;
    let said = '';
    await new Promise<void>((resolve, reject) => {
      const late = setTimeout(() => reject(new Error(`the daemon did not start:\n${said}`)), PATIENCE_MS);
      const hear = (chunk: Buffer) => {
        said += chunk.toString();
        const link = /https:\/\/\S+\/setup#\S+/.exec(said)?.[0];
        if (link === undefined || !said.includes('serving socket')) return;
        this.setupLink = link;
        this.origin = new URL(link).origin;
        clearTimeout(late);
        resolve();
      };
      daemon.stdout?.on('data', hear);
      daemon.stderr?.on('data', hear);
      daemon.once('exit', (code) => reject(new Error(`the daemon ended with ${code}:\n${said}`)));
    });
  }

  /** A request through the daemon's socket, as root. */
  ask<T>(method: string, path: string, body?: unknown): Promise<Answer<T>> {
    return new Promise((resolve, reject) => {
      const text = body === undefined ? '' : JSON.stringify(body);
      const headers = body === undefined ? {} : { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) };
      const sent = request({ socketPath: this.socket, method, path: `/api/v1${path}`, headers }, (response) => {
        let answer = '';
        response.setEncoding('utf8');
        response.on('data', (chunk: string) => (answer += chunk));
        response.on('end', () =>
          resolve({ status: response.statusCode ?? 0, body: (answer === '' ? undefined : JSON.parse(answer)) as T }),
        );
      });
      sent.once('error', reject);
      sent.end(text);
    });
  }

  async get<T>(path: string): Promise<T> {
    return succeeded(await this.ask<T>('GET', path), path);
  }

  async post<T>(path: string, body: unknown): Promise<T> {
    return succeeded(await this.ask<T>('POST', path, body), path);
  }

  /** Waits until an answer is as wanted. */
  async until<T>(path: string, wanted: (answer: T) => boolean): Promise<void> {
    for (const end = Date.now() + PATIENCE_MS; Date.now() < end;) {
      if (wanted(await this.get<T>(path))) return;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    throw new Error(`${path} did not become as wanted`);
  }

  /** An account to log in with; its password is `PASSWORD`. */
  async account(name: string, role: 'viewer' | 'operator' | 'administrator'): Promise<void> {
    await this.post('/accounts', { name, password: PASSWORD, role });
  }

  /** A pool of the first disks. */
  async pool(name: string, disks: number): Promise<void> {
    const paths = Array.from({ length: disks }, (_, at) => this.disk(at + 1));
    await this.post('/pools', { name, disks: paths, force: false });
  }

  /** Stops the daemon where it is, as a machine that hangs. */
  freeze(): void {
    this.#daemon?.kill('SIGSTOP');
  }

  thaw(): void {
    this.#daemon?.kill('SIGCONT');
  }

  pull(number: number): void {
    renameSync(this.disk(number), join(this.folder, 'away', `disk${number}.img`));
  }

  putBack(number: number): void {
    renameSync(join(this.folder, 'away', `disk${number}.img`), this.disk(number));
  }

  /** Ends the daemon and removes its folder. */
  async stop(): Promise<void> {
    const daemon = this.#daemon;
    if (daemon && daemon.exitCode === null) {
      const ended = new Promise((resolve) => daemon.once('exit', resolve));
      this.thaw();
      daemon.kill('SIGTERM');
      const killer = setTimeout(() => daemon.kill('SIGKILL'), PATIENCE_MS);
      await ended;
      clearTimeout(killer);
    }
    rmSync(this.folder, { recursive: true, force: true });
  }
}

function succeeded<T>({ status, body }: Answer<T>, path: string): T {
  if (status >= 300) throw new Error(`${path}: ${status} ${JSON.stringify(body)}`);
  return body;
}

export function sizeOf(text: string): number {
  const [, number, unit] = /^(\d+)(MiB|GiB)$/.exec(text) ?? [];
  return Number(number) * (unit === 'GiB' ? 1024 ** 3 : 1024 ** 2);
}

/** Runs a program to its end and answers what it printed. */
export function run(program: string, ...words: string[]): string {
  const { status, stdout, stderr, error } = spawnSync(program, words, { encoding: 'utf8', timeout: PATIENCE_MS });
  if (status !== 0) throw new Error(`${program} ${words.join(' ')}: ${error?.message ?? stderr}`);
  return stdout;
}
