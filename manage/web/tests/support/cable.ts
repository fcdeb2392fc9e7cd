// A cable between browser and daemon that can be cut: what is sent into it is lost, and nobody is told.
import { connect, createServer, type Server as Listener, type Socket } from 'node:net';

export class Cable {
  readonly origin: string;
  readonly #listener: Listener;
  readonly #sockets = new Set<Socket>();
  #cut = false;

  private constructor(listener: Listener, origin: string) {
    this.#listener = listener;
    this.origin = origin;
  }

  static async to(origin: string): Promise<Cable> {
    const port = Number(new URL(origin).port);
    const listener = createServer();
    await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
    const address = listener.address();
    if (address === null || typeof address === 'string') throw new Error('the cable has no port');
    const cable = new Cable(listener, `https://127.0.0.1:${address.port}`);
    listener.on('connection', (near) => cable.#join(near, connect(port, '127.0.0.1')));
    return cable;
  }

  #join(near: Socket, far: Socket): void {
    for (const [from, into] of [
      [near, far],
      [far, near],
    ] as const) {
      this.#sockets.add(from);
      from.on('data', (bytes) => this.#cut || into.write(bytes));
      from.on('close', () => (this.#sockets.delete(from), this.#cut || into.destroy()));
      from.on('error', () => from.destroy());
    }
  }

  cut(): void {
    this.#cut = true;
  }

  /** Joins it again; connections of before are gone. */
  mend(): void {
    for (const socket of this.#sockets) socket.destroy();
    this.#cut = false;
  }

  close(): void {
    this.mend();
    this.#listener.close();
  }
}
