// Every page of the console as its tests come to it, and dialogs on them, with something to show on each.
import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { choose, settled, visit } from './browser.ts';
import { mirrored } from './scene.ts';
import { run, sizeOf, type Server } from './server.ts';

export interface Shown {
  /** How its picture is called. */
  name: string;
  path: string;
  heading: string;
  /** What is done there before it is looked at. */
  then?: (page: Page, server: Server) => Promise<unknown>;
}

const press = (name: string | RegExp) => async (page: Page) => {
  await page.getByRole('button', { name }).first().click();
  await page.getByRole('dialog').waitFor();
};

/** The pages of those who are not logged in; setup only says that it wants its link. */
export const OPEN_PAGES: readonly Shown[] = [
  { name: 'login', path: '/login', heading: 'Log in' },
  { name: 'setup', path: '/setup#0000', heading: 'Set up Holdfast' },
];

export const PAGES: readonly Shown[] = [
  { name: 'overview', path: '/', heading: 'Overview' },
  { name: 'disks', path: '/disks', heading: 'Disks' },
  { name: 'pools', path: '/pools', heading: 'Pools' },
  { name: 'pool', path: '/pools/tank', heading: 'tank' },
  { name: 'spaces', path: '/spaces', heading: 'Spaces' },
  { name: 'space', path: '/spaces/tank/vm', heading: 'tank/vm' },
  { name: 'volumes', path: '/volumes', heading: 'Volumes' },
  { name: 'volume', path: '/volumes/tank/files', heading: 'tank/files' },
  {
    name: 'volume-integrity',
    path: '/volumes/tank/files',
    heading: 'tank/files',
    then: (page) => choose(page, 'Care', 'Integrity…'),
  },
  { name: 'volume-permissions', path: '/volumes/tank/files', heading: 'tank/files', then: press('Permissions…') },
  { name: 'volume-journal', path: '/volumes/tank/files', heading: 'tank/files', then: press('Change the size…') },
  { name: 'exports', path: '/exports?export=vm', heading: 'Exports' },
  { name: 'targets', path: '/targets?target=vms', heading: 'Targets' },
  { name: 'jobs', path: '/jobs', heading: 'Jobs' },
  { name: 'events', path: '/events', heading: 'Events' },
  { name: 'access', path: '/access?tab=accounts', heading: 'Access' },
  { name: 'access-own', path: '/access', heading: 'Access' },
  { name: 'access-tokens', path: '/access?tab=tokens', heading: 'Access' },
  { name: 'audit', path: '/access?tab=audit', heading: 'Access', then: openFirstChange },
  { name: 'notifications', path: '/notifications', heading: 'Notifications' },
  { name: 'notifications-rules', path: '/notifications?tab=rules', heading: 'Notifications' },
  { name: 'notifications-deliveries', path: '/notifications?tab=deliveries', heading: 'Notifications' },
  { name: 'settings', path: '/settings', heading: 'Settings' },
  { name: 'disk', path: '/disks', heading: 'Disks', then: openFirstDisk },
  { name: 'notifications-channel', path: '/notifications', heading: 'Notifications', then: press('Add a channel') },
  { name: 'disks-selected', path: '/disks', heading: 'Disks', then: selectDisks },
  { name: 'disks-enclosures', path: '/disks', heading: 'Disks', then: showEnclosures },
  { name: 'settings-change', path: '/settings', heading: 'Settings', then: press('Change…') },
  { name: 'wizard-pool', path: '/pools', heading: 'Pools', then: press('Create a pool…') },
  { name: 'wizard-space', path: '/spaces', heading: 'Spaces', then: previewSpace },
  { name: 'wizard-volume', path: '/volumes', heading: 'Volumes', then: press('Create a volume…') },
  { name: 'wizard-export', path: '/exports', heading: 'Exports', then: press('Export a space') },
  { name: 'wizard-target', path: '/targets', heading: 'Targets', then: press('Create a target') },
  { name: 'targets-lun', path: '/targets?target=vms', heading: 'Targets', then: press('Add a LUN…') },
  { name: 'targets-initiator', path: '/targets?target=vms', heading: 'Targets', then: press('Allow an initiator…') },
];

async function openFirstChange(page: Page): Promise<void> {
  await page.getByRole('grid', { name: 'Changes' }).getByRole('link').first().click();
  await page.getByRole('region', { name: 'The change' }).waitFor();
}

async function selectDisks(page: Page): Promise<void> {
  await page.getByLabel('Select all disks').check();
  await page.getByRole('button', { name: 'Enclosure and slots…' }).click();
  await page.getByRole('dialog').getByLabel('Enclosure').fill('shelf 1');
}

async function showEnclosures(page: Page): Promise<void> {
  await page.getByLabel('Enclosures').check();
  await page.getByRole('region', { name: 'Enclosure shelf 1' }).waitFor();
}

async function openFirstDisk(page: Page, server: Server): Promise<void> {
  const disk = (await server.get<{ id: string; path: string }[]>('/disks')).find((one) => one.path === server.disk(1));
  await page.goto(`/disks/${disk?.id}`);
  await page.getByRole('heading', { level: 1, name: /disk1\.img/ }).waitFor();
}

async function previewSpace(page: Page): Promise<void> {
  await press('Create a space…')(page);
  const dialog = page.getByRole('dialog');
  await dialog.getByText('Single parity').first().click();
  await dialog.getByLabel('Size', { exact: true }).fill('200MiB');
  await dialog.getByText('Fits', { exact: true }).waitFor();
}

/** Comes to a page and does there what is to be done. */
export async function come(page: Page, shown: Shown, server: Server): Promise<void> {
  await visit(page, shown.path, shown.heading);
  await settled(page);
  await shown.then?.(page, server);
  await settled(page);
}

/** A server that has something on each page: spaces, an export in use, a slow job, a job that ended, a disk that is away. */
export async function furnish(server: Server): Promise<void> {
  await mirrored(server, 'vm', sizeOf('128MiB'));
  await server.post('/spaces', { name: 'tank/archive', layout: 'parity', parity: 1, size_bytes: sizeOf('256MiB'), thin: true });
  const files = { name: 'tank/files', layout: 'mirror', copies: 2, columns: 2, size_bytes: sizeOf('64MiB') };
  await server.post('/volumes', { name: 'tank/files', space: files });
  await server.post('/targets', { name: 'vms' });
  await server.post('/targets/vms/luns', { backing: 'tank/archive' });
  const chap = { user: 'kim', secret: 'a secret of 24 letters' };
  await server.post('/targets/vms/initiators', { iqn: 'iqn.1991-05.com.microsoft:host', chap });
  await server.ask('PUT', '/volumes/tank/files/journal', { max_bytes: sizeOf('1MiB') });
  const data = join(server.folder, 'data');
  writeFileSync(data, randomBytes(sizeOf('96MiB')));
  run('nbdcopy', data, server.nbdUri.replace('NAME', 'vm'));
  await server.post('/spaces/tank/archive/scrub', {});
  server.pull(4);
  await server.until('/disks', (disks: { state: string }[]) => disks.some((disk) => disk.state === 'missing'));
  await server.post('/spaces/tank/vm/scrub', { cap_bytes_per_second: sizeOf('1MiB') });
  await server.account('kim', 'operator');
  // A mail server that is not there: its channel says so.
  const mail = { server: '127.0.0.1', port: 9, security: 'none', from: 'nas@example.com', to: ['admin@example.com'] };
  await server.post('/notifications/channels', { name: 'ops', mail });
  await server.post('/notifications/rules', { name: 'urgent', channel: 'ops', severity: 'error', quiet: '22:00-07:00' });
  await server.post('/notifications/channels/ops/test', {});
  for (const slot of [1, 2, 3])
    await server.ask('PATCH', `/disks/${encodeURIComponent(server.disk(slot))}`, { enclosure: 'shelf 1', slot });
}
