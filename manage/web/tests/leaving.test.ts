// A disk that some space cannot do without is retired, emptied or removed only where that is meant.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { visit } from './support/browser.ts';
import { scene, skip } from './support/scene.ts';
import { sizeOf } from './support/server.ts';

const on = scene(4, 0, async (server) => {
  await server.post('/spaces', {
    name: 'tank/vm',
    layout: 'mirror',
    copies: 2,
    columns: 2,
    size_bytes: sizeOf('32MiB'),
    thin: true,
  });
});

/** The disk of this number, as the server has it. */
async function disk(number: number): Promise<{ id: string; usage: string; pool: string | null } | undefined> {
  const disks = await on.server.get<{ id: string; path: string; usage: string; pool: string | null }[]>('/disks');
  return disks.find((one) => one.path === on.server.disk(number));
}

for (const [number, verb] of [
  [1, 'Retire'],
  [2, 'Evacuate'],
  [3, 'Remove'],
] as const) {
  test(`${verb} asks where a space gets no new rows`, { skip }, async () => {
    const { page, server } = on;
    await visit(page, `/disks/${(await disk(number))?.id}`, server.disk(number));
    await page.getByRole('button', { name: `${verb}…` }).click();
    const dialog = page.getByRole('dialog', { name: `${verb} ${server.disk(number)}` });
    const meant = dialog.getByLabel(`${verb} it anyway: tank/vm gets no new rows until a disk is added`);
    await meant.waitFor();
    await dialog.getByRole('button', { name: verb, exact: true }).click();
    await dialog.locator('[name=force][aria-invalid=true]').waitFor();
    assert.equal((await disk(number))?.usage, 'auto', 'nothing was sent');
    await meant.check();
    await dialog.getByText('--force', { exact: false }).waitFor();
    await dialog.getByRole('button', { name: verb, exact: true }).click();
    await dialog.waitFor({ state: 'detached' });
    const after = await disk(number);
    assert.ok(verb === 'Remove' ? after?.pool !== 'tank' : after?.usage === 'retired', JSON.stringify(after));
    if (verb !== 'Remove') await server.ask('PATCH', `/disks/${after?.id}`, { usage: 'auto' });
  });
}

test('nothing went wrong in the pages', { skip }, () => assert.deepEqual(on.troubles, []));
