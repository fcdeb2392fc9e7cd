// What each role may not do: the console offers it nothing that is refused, and the server refuses whatever is sent all the same.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Page } from 'playwright-core';
import { settled, visit } from './support/browser.ts';
import { mirrored, scene, skip } from './support/scene.ts';
import { PASSWORD, sizeOf } from './support/server.ts';

const on = scene(5, 1, async (server) => {
  await mirrored(server, 'vm', sizeOf('64MiB'));
  const space = { name: 'tank/files', layout: 'mirror', copies: 2, columns: 1, size_bytes: sizeOf('64MiB') };
  await server.post('/volumes', { name: 'tank/files', space });
  await server.post('/targets', { name: 'vms' });
});

/** Buttons that change nothing of the server: they sort, filter, copy, close, or are about one's own account. */
const HARMLESS =
  /^(Navigation|Theme|Account .*|Copy the command|Close|Change password|Create a token|Show the map|Actions( of .*)?|Care|Emergency)$/;

async function enabledActions(page: Page): Promise<string[]> {
  const buttons = await page.locator('main button:enabled:not(th button)').all();
  const names = await Promise.all(
    buttons.map(async (button) => (await button.getAttribute('aria-label')) ?? (await button.textContent()) ?? ''),
  );
  return names.map((name) => name.trim()).filter((name) => !HARMLESS.test(name));
}

function ask(page: Page, path: string): Promise<number> {
  return page.evaluate(async (path) => (await fetch(`/api/v1${path}`)).status, path);
}

/** Sends a change from the page, with all that a session of the page would send. */
function send(page: Page, method: string, path: string, body: unknown): Promise<number> {
  return page.evaluate(
    async ([method, path, body]) => {
      const session = (await (await fetch('/api/v1/session')).json()) as { csrf: string };
      const headers = { 'Content-Type': 'application/json', 'X-CSRF-Token': session.csrf };
      return (await fetch(`/api/v1${path}`, { method, headers, body: method === 'DELETE' ? undefined : JSON.stringify(body) }))
        .status;
    },
    [method, path, body] as const,
  );
}

const PAGES: [string, string][] = [
  ['/', 'Overview'],
  ['/disks', 'Disks'],
  ['/pools', 'Pools'],
  ['/pools/tank', 'tank'],
  ['/spaces', 'Spaces'],
  ['/spaces/tank/vm', 'tank/vm'],
  ['/volumes', 'Volumes'],
  ['/volumes/tank/files', 'tank/files'],
  ['/exports?export=vm', 'Exports'],
  ['/targets?target=vms', 'Targets'],
  ['/jobs', 'Jobs'],
  ['/events', 'Events'],
  ['/notifications', 'Notifications'],
  ['/notifications?tab=rules', 'Notifications'],
  ['/settings', 'Settings'],
];

test('a viewer sees no action that could be taken', { skip }, async () => {
  const page = await on.as('viewer');
  for (const [path, heading] of PAGES) {
    await visit(page, path, heading);
    await settled(page);
    assert.deepEqual(await enabledActions(page), [], path);
  }
  await visit(page, '/disks', 'Disks');
  await page
    .getByRole('grid', { name: 'Disks' })
    .getByRole('button', { name: /Actions/ })
    .first()
    .click();
  const items = page.getByRole('menuitem');
  assert.ok((await items.count()) > 0);
  for (const item of await items.all())
    assert.equal(await item.getAttribute('aria-disabled'), 'true', (await item.textContent()) ?? '');
  await visit(page, '/access', 'Access');
  assert.equal(await page.getByText('Accounts', { exact: true }).count(), 0, 'a viewer is offered the accounts');
  await page.context().close();
});

const CHANGES: [string, string, unknown, 'operator' | 'administrator'][] = [
  ['POST', '/pools', { name: 'p', disks: ['/nowhere'] }, 'administrator'],
  ['POST', '/disks', { path: '/nowhere', size_bytes: 1 << 28 }, 'administrator'],
  ['DELETE', '/spaces/tank/vm', null, 'administrator'],
  ['DELETE', '/pools/tank', null, 'administrator'],
  ['GET', '/accounts', null, 'administrator'],
  ['POST', '/accounts', { name: 'x', password: PASSWORD, role: 'viewer' }, 'administrator'],
  ['GET', '/audit', null, 'administrator'],
  ['POST', '/notifications/channels', { name: 'x', webhook: { url: 'http://127.0.0.1/' } }, 'administrator'],
  ['POST', '/notifications/rules', { name: 'x', channel: 'y' }, 'administrator'],
  ['POST', '/spaces', { name: 'tank/x', layout: 'simple', size_bytes: 4096 }, 'operator'],
  ['POST', '/volumes', { name: 'tank/x', on: 'tank/vm' }, 'operator'],
  ['DELETE', '/volumes/tank/x', null, 'administrator'],
  ['GET', '/volumes/tank/files/integrity?path=/', null, 'operator'],
  ['PUT', '/volumes/tank/files/integrity', { path: '/', mode: 'strict' }, 'operator'],
  ['POST', '/volumes/tank/files/scrub', {}, 'operator'],
  ['PUT', '/volumes/tank/files/journal', {}, 'operator'],
  ['GET', '/volumes/tank/files/journal/entries', null, 'operator'],
  ['DELETE', '/volumes/tank/files/journal', null, 'administrator'],
  ['POST', '/exports', { space: 'tank/vm', name: 'x' }, 'operator'],
  ['POST', '/targets', { name: 'x' }, 'operator'],
  ['PATCH', '/targets/vms', { open: true }, 'administrator'],
  ['POST', '/targets/vms/initiators', { iqn: 'iqn.1991-05.com.microsoft:host' }, 'operator'],
  ['PUT', '/iscsi/discovery', { user: 'kim', secret: 'a secret of 24 letters' }, 'administrator'],
  ['DELETE', '/targets/vms/luns/0/reservation?confirm=true', null, 'administrator'],
  ['DELETE', '/exports/vm', null, 'operator'],
  ['POST', '/spaces/tank/vm/scrub', {}, 'operator'],
  ['POST', '/spaces/tank/vm/convert', { layout: 'simple' }, 'operator'],
];

for (const role of ['viewer', 'operator'] as const) {
  test(`the server refuses what the role ${role} may not`, { skip }, async () => {
    const page = await on.as(role);
    for (const [method, path, body, needed] of CHANGES) {
      if (role === needed) continue;
      const status = method === 'GET' ? await ask(page, path) : await send(page, method, path, body);
      assert.equal(status, 403, `${method} ${path}`);
    }
    await page.context().close();
  });
}

test('a change without its token is refused, whoever is logged in', { skip }, async () => {
  const status = await on.page.evaluate(
    async () =>
      (
        await fetch('/api/v1/exports/vm', {
          method: 'DELETE',
          headers: { 'Content-Type': 'application/json' },
        })
      ).status,
  );
  assert.equal(status, 403);
});

test('who is not logged in is led to the login, and on from there', { skip }, async () => {
  const page = await on.as('operator');
  await page.context().clearCookies();
  await page.goto('/spaces/tank/vm');
  await page.getByRole('heading', { name: 'Log in' }).waitFor();
  await page.getByLabel('Account').fill('operator-of-tests');
  await page.getByLabel('Password').fill('wrong password');
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByRole('alert').waitFor();
  await page.getByLabel('Password').fill(PASSWORD);
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByRole('heading', { level: 1, name: 'tank/vm' }).waitFor();
  await page.context().close();
});

test('everything is as it was', { skip }, async () => {
  assert.equal((await on.server.get<unknown[]>('/exports')).length, 1);
  assert.equal((await on.server.get<unknown[]>('/spaces')).length, 2);
  const integrity = await on.server.get<{ mode: string }>('/volumes/tank/files/integrity?path=/');
  assert.equal(integrity.mode, 'pass-through');
  assert.equal((await on.server.ask('GET', '/volumes/tank/files/journal')).status, 404);
  assert.deepEqual(on.troubles, []);
});
