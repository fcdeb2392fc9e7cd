// What the console estimates for disks of no pool is what a pool of them really gives, within a percent.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { estimates } from '../src/wizards/capacity.ts';
import { skip } from './support/scene.ts';
import { Server } from './support/server.ts';

const TIB = 1024 ** 4;
const MOST_OFF = 0.01;
const GIB = 1024 ** 3;
const servers: Server[] = [];
after(() => Promise.all(servers.map((server) => server.stop())));

interface Usable {
  layout: string;
  columns: number;
  usable_bytes: number;
}

for (const [unit, sizes] of [
  [TIB, [1, 1, 1, 1, 1, 1, 1]],
  [TIB, [4, 4, 2, 2, 1, 1, 1, 1]],
  [GIB, [8, 8, 8, 8, 8]],
  [GIB, [100, 100, 200, 240, 240, 500]],
] as const) {
  test(`disks of ${sizes.join(', ')} ${unit === TIB ? 'TiB' : 'GiB'}`, { skip }, async () => {
    const server = await Server.start(0);
    servers.push(server);
    const disks = sizes.map((size) => size * unit);
    for (const [at, size] of disks.entries()) await server.post('/disks', { path: server.disk(at + 1), size_bytes: size });
    await server.pool('tank', disks.length);
    const { usable } = await server.get<{ usable: Usable[] }>('/pools/tank');
    for (const [at, estimate] of estimates(disks).entries()) {
      const real = usable[at];
      assert.equal(real?.layout, estimate.layout);
      assert.equal(real.columns, estimate.columns, estimate.layout);
      const share = estimate.usable_bytes / real.usable_bytes;
      assert.ok(Math.abs(share - 1) < MOST_OFF, `${estimate.layout}: ${share} of what there is`);
    }
  });
}
