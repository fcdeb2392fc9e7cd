// The dashboard and the alert rules name metrics that a daemon has, by labels that these carry.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { skip } from './support/scene.ts';
import { Server } from './support/server.ts';

const FOLDER = join(import.meta.dirname, '..', '..', '..', 'docs', 'grafana');
/** What Prometheus adds itself. */
const OF_PROMETHEUS = ['instance', 'job', 'le'];

interface Panel {
  id: number;
  title: string;
  gridPos: { x: number; y: number; w: number; h: number };
  targets: { expr: string; legendFormat: string }[];
}

const { panels } = JSON.parse(readFileSync(join(FOLDER, 'holdfast.json'), 'utf8')) as { panels: Panel[] };
const alerts = readFileSync(join(FOLDER, 'holdfast-alerts.yaml'), 'utf8');
const rules = [...alerts.matchAll(/- alert: (\w+)\n\s+expr: (.+)\n/g)].map(([, name, expr]) => ({ name: name!, expr: expr! }));

let server: Server | undefined;
after(() => server?.stop());

/** The names of all metrics, and the labels of those that have a sample. */
async function metrics() {
  server = await Server.start(3);
  await server.pool('tank', 3);
  await server.post('/spaces', { name: 'tank/vm', layout: 'mirror', copies: 2, size_bytes: 64 * 1024 ** 2 });
  await server.post('/exports', { space: 'tank/vm' });
  const files = { name: 'tank/files', layout: 'mirror', copies: 2, size_bytes: 64 * 1024 ** 2 };
  await server.post('/volumes', { name: 'tank/files', space: files });
  await server.post('/targets', { name: 'vms' });
  await server.post('/targets/vms/luns', { backing: 'tank/files:/disk.raw', size_bytes: 4 * 1024 ** 2 });
  const { stdout } = spawnSync('curl', ['-sS', '--unix-socket', server.socket, 'http://holdfast/metrics'], { encoding: 'utf8' });
  const names = new Set([...stdout.matchAll(/^# TYPE (\S+) /gm)].map(([, name]) => name!));
  const labels = new Map<string, Set<string>>();
  for (const [, name, list] of stdout.matchAll(/^(\w+)\{([^}]*)\} /gm)) {
    labels.set(name!, new Set([...list!.matchAll(/(\w+)="/g)].map(([, label]) => label!)));
  }
  return { names, labels };
}

test('every metric of the dashboard and of the alert rules is one that a daemon has', { skip }, async () => {
  const { names, labels } = await metrics();
  const asked = [
    ...panels.flatMap(({ title, targets }) =>
      targets.map(({ expr, legendFormat }) => ({ where: title, expr, shown: legendFormat })),
    ),
    ...rules.map(({ name, expr }) => ({ where: name, expr, shown: '' })),
  ];
  assert.ok(asked.length > 40, 'expressions are not found');
  for (const { where, expr, shown } of asked) {
    const used = [...expr.matchAll(/\b(?:holdfast|process)_\w+/g)].map(([name]) => name);
    assert.ok(used.length > 0, `${where} asks for nothing`);
    const grouped = [...expr.matchAll(/by \(([^)]*)\)/g)].flatMap(([, list]) => list!.split(',').map((one) => one.trim()));
    const legend = [...shown.matchAll(/\{\{(\w+)\}\}/g)].map(([, label]) => label!);
    for (const name of used) {
      const family = name.replace(/_(bucket|count|sum)$/, '');
      assert.ok(names.has(name) || names.has(family), `${where}: there is no metric ${name}`);
      const known = labels.get(name);
      for (const label of [...grouped, ...legend].filter((one) => known && !OF_PROMETHEUS.includes(one))) {
        assert.ok(known?.has(label), `${where}: ${name} has no label ${label}`);
      }
    }
  }
});

test('volumes, LUNs and snapshots have panels, and no two panels lie on each other', () => {
  const all = JSON.stringify(panels);
  for (const part of ['holdfast_volume_free_bytes', 'holdfast_volume_snapshots', 'holdfast_lun_operations_total']) {
    assert.ok(all.includes(part), part);
  }
  const cells = panels.map(({ gridPos: { x, y } }) => `${x} ${y}`);
  assert.equal(new Set(cells).size, panels.length);
  assert.equal(new Set(panels.map(({ id }) => id)).size, panels.length);
  assert.equal(rules.length, alerts.match(/- alert:/g)?.length);
});
