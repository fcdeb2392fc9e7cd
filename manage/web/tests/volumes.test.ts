// A volume by the console: created, mounted, unmounted by somebody else, mounted again, grown, shrunk and destroyed.
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { spawnSync } from 'node:child_process';
import { check } from './support/axe.ts';
import { choose, visit } from './support/browser.ts';
import { mount as unmount, mountable } from './support/mounts.ts';
import { scene, skip as without } from './support/scene.ts';
import { PATIENCE_MS, run, sizeOf } from './support/server.ts';

interface Volume {
  size_bytes: number;
  mount: { directory: string; mounted: boolean } | null;
}

const skip = without || (mountable() ? false : 'mounting needs root and /dev/fuse');

let directory = '';
const on = scene(4, 0, async (server) => {
  directory = join(server.folder, 'mnt');
  mkdirSync(directory);
  // A space that is not empty: no volume is made on it.
  await server.post('/spaces', { name: 'tank/used', layout: 'mirror', copies: 2, columns: 2, size_bytes: sizeOf('64MiB') });
  await server.post('/exports', { space: 'tank/used' });
  run('qemu-io', '-f', 'raw', '-c', 'write -P 7 0 64k', server.nbdUri.replace('NAME', 'used'));
  await server.ask('DELETE', '/exports/used');
});
// Whatever failed: a mount that stays would keep the daemon's folder.
after(() => {
  if (directory !== '') spawnSync('umount', ['-l', directory]);
});

async function waitFor(condition: () => boolean) {
  for (const end = Date.now() + PATIENCE_MS; !condition();) {
    assert.ok(Date.now() < end, 'it did not come to be');
    await new Promise((done) => setTimeout(done, 50));
  }
}

const isMounted = () =>
  readFileSync('/proc/self/mounts', 'utf8')
    .split('\n')
    .some((line) => line.split(' ')[1] === directory);
const dialog = (name: string) => on.page.getByRole('dialog', { name });
const row = () => on.page.getByRole('grid', { name: 'Volumes' }).getByRole('row', { name: /tank\/files/ });

test('a volume is created on a new space by the wizard', { skip: without }, async () => {
  const { page, server } = on;
  await visit(page, '/volumes', 'Volumes');
  await page.getByRole('button', { name: 'Create a volume…' }).click();
  const wizard = dialog('Create a volume');
  await wizard.getByLabel('Name', { exact: true }).fill('a b');
  await wizard.getByRole('button', { name: 'Create volume' }).click();
  await wizard.locator('[name=name][aria-invalid=true]').waitFor();
  await wizard.locator('[name=size][aria-invalid=true]').waitFor();
  await wizard.getByLabel('Name', { exact: true }).fill('files');

  await wizard.getByLabel('An empty space that exists').check();
  await wizard.getByLabel('Empty space', { exact: true }).selectOption('tank/used');
  await wizard.getByText('holdfast volume create tank/files --on tank/used', { exact: true }).waitFor();
  await wizard.getByRole('button', { name: 'Create volume' }).click();
  await wizard.getByText(/tank\/used holds data/).waitFor();
  await wizard.locator('[name=on][aria-invalid=true]').waitFor();

  await wizard.getByLabel('A new space, which goes with the volume').check();
  await wizard.getByLabel('Size', { exact: true }).fill('128MiB');
  await wizard.getByText('Fits', { exact: true }).waitFor();
  const command = 'holdfast volume create tank/files --layout mirror --copies 2 --size 128MiB';
  await wizard.getByText(command, { exact: true }).waitFor();
  await wizard.getByRole('button', { name: 'Create volume' }).click();
  await page.getByRole('heading', { level: 1, name: 'tank/files' }).waitFor();
  await page.getByText('Not mounted').waitFor();
  const volume = await server.get<Volume>('/volumes/tank/files');
  assert.equal(volume.size_bytes, sizeOf('128MiB'));
  assert.equal(volume.mount, null);
});

test('it is mounted on a directory, which can be made for it, and the table says where', { skip }, async () => {
  const { page, server } = on;
  await visit(page, '/volumes/tank/files', 'tank/files');
  await page.getByRole('button', { name: 'Mount…', exact: true }).click();
  const mount = dialog('Mount tank/files');
  await mount.getByText(/again at every start/).waitFor();
  await mount.getByLabel('Directory', { exact: true }).fill('mnt');
  await mount.getByRole('button', { name: 'Mount', exact: true }).click();
  await mount.locator('[name=directory][aria-invalid=true]').waitFor();
  const missing = join(server.folder, 'not', 'there');
  const refused = await server.ask('PUT', '/volumes/tank/files/mount', { directory: missing });
  assert.equal(refused.status, 400, 'a directory that is missing is a fault of the request');
  await mount.getByLabel('Directory', { exact: true }).fill(missing);
  await mount.getByRole('button', { name: 'Mount', exact: true }).click();
  await mount.locator('[name=directory][aria-invalid=true]').waitFor();
  await mount.getByText(/is not mounted on .* does not exist; next: have it made/).waitFor();
  await mount.getByLabel(/^Make the directory/).check();
  await mount.getByText(`holdfast volume mount tank/files ${missing} --create-directory`, { exact: true }).waitFor();
  await mount.getByRole('button', { name: 'Mount', exact: true }).click();
  await mount.waitFor({ state: 'detached' });
  await page.getByText(missing, { exact: true }).waitFor();
  await unmount(server, 'tank/files');
  await page.getByText('Not mounted', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Mount…', exact: true }).click();
  await mount.getByLabel('Directory', { exact: true }).fill(directory);
  await mount.getByRole('button', { name: 'Mount', exact: true }).click();
  await mount.waitFor({ state: 'detached' });
  assert.ok(isMounted());
  writeFileSync(join(directory, 'note'), 'kept');
  await visit(page, '/volumes', 'Volumes');
  await row().getByText(directory, { exact: true }).waitFor();
  await row().getByText('Healthy').waitFor();
});

test('a volume that somebody else unmounts says so on the open page', { skip }, async () => {
  const { page } = on;
  await visit(page, '/volumes/tank/files', 'tank/files');
  await page.getByText(directory, { exact: true }).waitFor();
  run('umount', directory);
  await page.getByText(/was unmounted from .* by somebody else/).waitFor();
  await page.getByText('Next:').first().waitFor();
  await page.getByText(`${directory} (not now)`).waitFor();
  await page.getByRole('button', { name: 'Mount…', exact: true }).click();
  const mount = dialog('Mount tank/files');
  assert.equal(await mount.getByLabel('Directory', { exact: true }).inputValue(), directory);
  await mount.getByRole('button', { name: 'Mount', exact: true }).click();
  await mount.waitFor({ state: 'detached' });
  assert.equal(readFileSync(join(directory, 'note'), 'utf8'), 'kept');
  await page.getByText(/by somebody else/).waitFor({ state: 'detached' });
});

test('it grows with its space', { skip: without }, async () => {
  const { page, server } = on;
  await visit(page, '/volumes/tank/files', 'tank/files');
  await page.getByRole('button', { name: 'Grow…' }).click();
  const grow = dialog('Grow tank/files');
  await grow.getByLabel('New size').fill('64MiB');
  await grow.getByRole('button', { name: 'Grow', exact: true }).click();
  await grow.getByText(/Enter a larger size/).waitFor();
  await grow.getByLabel('New size').fill('192MiB');
  await grow.getByRole('button', { name: 'Grow', exact: true }).click();
  await grow.waitFor({ state: 'detached' });
  await page.getByRole('definition').getByText('192 MiB', { exact: true }).waitFor();
  assert.equal((await server.get<Volume>('/volumes/tank/files')).size_bytes, sizeOf('192MiB'));
  assert.equal((await server.get<{ size_bytes: number }>('/spaces/tank/files')).size_bytes, sizeOf('192MiB'));
});

test('it shrinks with its space, after its plan was shown', { skip: without }, async () => {
  const { page, server } = on;
  await visit(page, '/volumes/tank/files', 'tank/files');
  await page.getByRole('button', { name: 'Shrink…' }).click();
  const shrink = dialog('Shrink tank/files');
  const plan = shrink.getByRole('region', { name: 'Plan' });
  await shrink.getByLabel('New size').fill('1MiB');
  await plan.getByText(/the smallest size that it can have now/).waitFor();
  await shrink.getByRole('button', { name: 'Shrink', exact: true }).click();
  await shrink.getByText(/The smallest size now is/).waitFor();
  await shrink.getByLabel('New size').fill('128MiB');
  await plan.getByText('192 MiB now, 128 MiB afterwards').waitFor();
  await shrink.getByText('holdfast volume shrink tank/files --size 128MiB', { exact: true }).waitFor();
  await shrink.getByRole('button', { name: 'Shrink', exact: true }).click();
  await shrink.waitFor({ state: 'detached' });
  await page.getByRole('definition').getByText('128 MiB', { exact: true }).waitFor();
  assert.equal((await server.get<Volume>('/volumes/tank/files')).size_bytes, sizeOf('128MiB'));
  assert.equal((await server.get<{ size_bytes: number }>('/spaces/tank/files')).size_bytes, sizeOf('128MiB'));
});

test('a directory of it gets a quota, and loses it again', { skip: without }, async () => {
  const { page, server } = on;
  await visit(page, '/volumes/tank/files', 'tank/files');
  await page.getByText(/No quota is set/).waitFor();
  await page.getByRole('button', { name: 'Set a quota…' }).click();
  const set = dialog('Set a quota on tank/files');
  await set.getByRole('button', { name: 'Set quota' }).click();
  await set.locator('[name=hard][aria-invalid=true]').waitFor();
  await set.getByLabel('Size limit', { exact: true }).fill('10MiB');
  await set.getByLabel('Directory', { exact: true }).fill('/nowhere');
  await set.getByRole('button', { name: 'Set quota' }).click();
  await set.locator('[name=name][aria-invalid=true]').waitFor();
  await set.getByLabel('Directory', { exact: true }).fill('/');
  await set.getByText('holdfast volume quota set tank/files --path / --size 10MiB', { exact: true }).waitFor();
  await set.getByRole('button', { name: 'Set quota' }).click();
  await set.waitFor({ state: 'detached' });
  const line = page.getByRole('grid', { name: 'Quotas' }).getByRole('row', { name: /Directory \// });
  await line.getByText('of 10 MiB').waitFor();
  await line.getByText('%').waitFor();
  const quotas = () => server.get<{ name: string; hard_bytes: number }[]>('/volumes/tank/files/quotas');
  assert.deepEqual(
    (await quotas()).map((quota) => [quota.name, quota.hard_bytes]),
    [['/', sizeOf('10MiB')]],
  );
  await line.getByRole('button', { name: 'Actions of the quota of /' }).click();
  await page.getByRole('menuitem', { name: 'Remove…' }).click();
  const remove = dialog('Remove the quota of /');
  await remove.getByText('holdfast volume quota remove tank/files --path /', { exact: true }).waitFor();
  await remove.getByRole('button', { name: 'Remove quota' }).click();
  await remove.waitFor({ state: 'detached' });
  await page.getByText(/No quota is set/).waitFor();
  assert.deepEqual(await quotas(), []);
});

test('its metadata is scanned by a job', { skip: without }, async () => {
  const { page } = on;
  await visit(page, '/volumes/tank/files', 'tank/files');
  await choose(page, 'Care', 'Scan…');
  const scan = dialog('Scan tank/files');
  await scan.getByRole('button', { name: 'Scan', exact: true }).click();
  await scan.waitFor({ state: 'detached' });
  await visit(page, '/jobs', 'Jobs');
  await page
    .getByRole('grid', { name: 'All jobs' })
    .getByRole('row', { name: /Scan tank\/files/ })
    .getByText('Done')
    .waitFor();
});

test('its free room goes back to its space only if that is thin', { skip: without }, async () => {
  const { page } = on;
  await visit(page, '/volumes/tank/files', 'tank/files');
  await choose(page, 'Care', 'Trim…');
  const trim = dialog('Trim tank/files');
  await trim.getByText('holdfast volume trim tank/files', { exact: true }).waitFor();
  await trim.getByRole('button', { name: 'Trim', exact: true }).click();
  await trim.getByText(/is fixed and keeps all its room/).waitFor();
  await trim.getByRole('button', { name: 'Cancel' }).click();
  await trim.waitFor({ state: 'detached' });
});

test('a snapshot of it is made, compared, restored from and destroyed', { skip }, async () => {
  const { page, server } = on;
  await visit(page, '/volumes/tank/files', 'tank/files');
  await page.getByText(/There are no snapshots/).waitFor();
  const make = async (name: string) => {
    await page.getByRole('button', { name: 'Make a snapshot…' }).click();
    const made = dialog('Make a snapshot of tank/files');
    await made.getByLabel('Name', { exact: true }).fill(name);
    await made.getByRole('button', { name: 'Make snapshot' }).click();
    return made;
  };
  const refused = await make('a/b');
  await refused.locator('[name=name][aria-invalid=true]').waitFor();
  await refused.getByLabel('Name', { exact: true }).fill('monday');
  await refused.getByText('holdfast snapshot create tank/files@monday', { exact: true }).waitFor();
  await refused.getByRole('button', { name: 'Make snapshot' }).click();
  await refused.waitFor({ state: 'detached' });
  const line = page.getByRole('grid', { name: 'Snapshots' }).getByRole('row', { name: /monday/ });
  await line.waitFor();
  writeFileSync(join(directory, 'note'), 'spoiled');
  writeFileSync(join(directory, 'more'), 'new');

  const chooseFor = async (what: string) => {
    await line.getByRole('button', { name: 'Actions of snapshot monday' }).click();
    await page.getByRole('menuitem', { name: what }).click();
  };
  await chooseFor('Differences…');
  const since = dialog('Since snapshot monday');
  await since
    .getByRole('row', { name: /\/more/ })
    .getByText('Created')
    .waitFor();
  await since
    .getByRole('row', { name: /\/note/ })
    .getByText('Changed')
    .waitFor();
  await since.getByText('2 differences').waitFor();
  await since.getByRole('button', { name: 'Close' }).last().click();
  await since.waitFor({ state: 'detached' });

  await chooseFor('Restore…');
  const restore = dialog('Restore from snapshot monday');
  const plan = restore.getByRole('region', { name: 'What is restored' });
  await plan
    .getByRole('row', { name: /\/more/ })
    .getByText('Is removed')
    .waitFor();
  await restore.getByLabel('File or directory').fill('note');
  await restore.getByRole('button', { name: 'Restore', exact: true }).click();
  await restore.locator('[name=path][aria-invalid=true]').waitFor();
  await restore.getByRole('list', { name: 'In /' }).getByRole('button', { name: /^note/ }).click();
  assert.equal(await restore.getByLabel('File or directory').inputValue(), '/note');
  await plan.getByText('1 difference', { exact: true }).waitFor();
  await restore.getByText('holdfast snapshot restore tank/files@monday --path /note --yes', { exact: true }).waitFor();
  await restore.getByRole('button', { name: 'Restore', exact: true }).click();
  await restore.waitFor({ state: 'detached' });
  await page
    .getByRole('grid', { name: 'Snapshots' })
    .getByRole('row', { name: /before-restore-/ })
    .waitFor();
  await waitFor(() => readFileSync(join(directory, 'note'), 'utf8') === 'kept');
  assert.equal(readFileSync(join(directory, 'more'), 'utf8'), 'new');

  await chooseFor('Destroy…');
  const destroy = dialog('Destroy snapshot monday');
  await destroy.getByLabel(/^Type monday/).fill('monday');
  await destroy.getByRole('button', { name: 'Destroy snapshot' }).click();
  await destroy.waitFor({ state: 'detached' });
  await line.waitFor({ state: 'detached' });
  const left = await server.get<{ name: string }[]>('/volumes/tank/files/snapshots');
  assert.equal(left.length, 1);
});

test('permissions are shown, explained for a user and set', { skip }, async () => {
  const { page, server } = on;
  await visit(page, '/volumes/tank/files', 'tank/files');
  await page.getByRole('button', { name: 'Permissions…' }).click();
  const shown = dialog('Permissions on tank/files');
  await shown.getByLabel('File or directory').fill('/note');
  await shown.getByText('Owner user root, group group root, mode 0644. They are all there is').waitFor();
  const access = shown.getByRole('region', { name: 'Effective access' });
  await shown.getByLabel('What may this user do?').fill('4001');
  await access.getByText('Change permissions', { exact: true }).waitFor();
  await access
    .getByRole('list', { name: 'Reasons' })
    .getByText(/granted: entry/)
    .first()
    .waitFor();
  await shown.getByLabel('File or directory').fill('/');
  await shown.getByLabel('Hand them on to all that is below, as a job').check();
  await shown.getByLabel('Priority').selectOption('low');
  await shown.getByText(/^holdfast volume acl set tank\/files\/ --sddl .* --below --priority low$/).waitFor();
  await shown.getByLabel('Hand them on to all that is below, as a job').uncheck();
  await shown.getByLabel('File or directory').fill('/note');
  await shown.getByText('The descriptor as text').click();
  await shown.getByLabel('Descriptor').fill('D:(');
  await shown.getByText(/^The text below counts/).waitFor();
  await shown.getByRole('button', { name: 'Set permissions' }).click();
  await shown.locator('[name=sddl][aria-invalid=true]').waitFor();
  await shown.getByLabel('Descriptor').fill('D:(D;;FR;;;S-1-22-1-4001)(A;;FA;;;WD)');
  await shown.getByRole('button', { name: 'Set permissions' }).click();
  await shown.waitFor({ state: 'detached' });
  const acl = await server.get<{ own: boolean; mode: string }>('/volumes/tank/files/acl?path=/note');
  assert.deepEqual([acl.own, acl.mode], [true, '0777']);
});

test('permissions are edited by names of users and groups, in words', { skip }, async () => {
  const { page, server } = on;
  mkdirSync(join(directory, 'team'));
  await visit(page, '/volumes/tank/files', 'tank/files');
  await page.getByRole('button', { name: 'Permissions…' }).click();
  const shown = dialog('Permissions on tank/files');
  await shown.getByLabel('File or directory').fill('/team');
  const list = shown.getByRole('list', { name: 'Who may do what' });
  const add = async (who: string) => {
    await shown.getByLabel('Add a user or group').fill(who);
    await shown.getByRole('button', { name: 'Add', exact: true }).click();
  };
  await list.getByRole('listitem').first().waitFor();
  await add('nobody of this name');
  await shown.getByText('The server knows no user or group “nobody of this name”.').waitFor();
  await add('daemon');
  await shown.getByText('Write “user daemon” or “group daemon”.').waitFor();
  await add('group daemon');
  await list.getByLabel('Rights of group daemon', { exact: true }).selectOption('Modify');
  await list.getByLabel('Where the rights of group daemon apply').selectOption('All below only');
  await add('user daemon');
  await list.getByLabel('Allow or deny user daemon').selectOption('Deny');
  await list.getByLabel('Rights of user daemon', { exact: true }).selectOption('Single rights');
  const single = list.getByRole('group', { name: 'Single rights of user daemon' });
  for (const right of await single.getByRole('checkbox', { checked: true }).all()) assert.ok(await right.isEnabled());
  await single.getByLabel('Delete', { exact: true }).check();
  await check(page, 'an editor of permissions');
  await shown.getByLabel(/^Inherits nothing from above/).check();
  await shown.getByRole('button', { name: 'Set permissions' }).click();
  await shown.waitFor({ state: 'detached' });
  interface Acl {
    protected: boolean;
    entries: { who: { name: string }; kind: string; mask: number; here: boolean; files: boolean }[];
  }
  const acl = await server.get<Acl>('/volumes/tank/files/acl?path=/team');
  const entry = (name: string) => acl.entries.find((one) => one.who.name === name);
  assert.ok(acl.protected);
  assert.deepEqual(
    [entry('group daemon')?.mask, entry('group daemon')?.here, entry('group daemon')?.files],
    [0x1301bf, false, true],
  );
  assert.equal(entry('user daemon')?.kind, 'deny');
  assert.equal(entry('user daemon')?.mask, 0x1200a9 | 0x10000);

  // What it hands on is shown where it came to, and taken away where it came from.
  mkdirSync(join(directory, 'team', 'below'));
  await page.getByRole('button', { name: 'Permissions…' }).click();
  await shown.getByLabel('File or directory').fill('/team/below');
  await list.getByText('modify · from a directory above').waitFor();
  assert.equal(await list.getByRole('button', { name: 'Remove the entry of group daemon' }).count(), 0);
  await shown.getByLabel('What may this user do?').fill('daemon');
  await shown.getByRole('region', { name: 'Effective access' }).getByText('Change permissions', { exact: true }).waitFor();
  await shown.getByRole('button', { name: 'Cancel' }).click();
});

test('what chmod does to descriptors is shown and set', { skip: without }, async () => {
  const { page, server } = on;
  await visit(page, '/volumes/tank/files', 'tank/files');
  await page.getByText('Limits what the descriptor grants').waitFor();
  await choose(page, 'Care', 'Mode changes…');
  const shown = dialog('What chmod does on tank/files');
  await shown.getByLabel('A change of the mode').selectOption('discard');
  await shown.getByText('holdfast volume set tank/files --mode-change discard', { exact: true }).waitFor();
  await shown.getByRole('button', { name: 'Set', exact: true }).click();
  await shown.waitFor({ state: 'detached' });
  await page.getByRole('definition').filter({ hasText: 'Takes the descriptor away' }).waitFor();
  assert.equal((await server.get<{ mode_change: string }>('/volumes/tank/files')).mode_change, 'discard');
});

test('snapshots of it are made by the clock', { skip: without }, async () => {
  const { page, server } = on;
  await visit(page, '/volumes/tank/files', 'tank/files');
  await page.getByText(/No snapshots are made by the clock/).waitFor();
  await page.getByRole('button', { name: 'Add to the schedule…' }).click();
  const add = dialog('Make snapshots of tank/files by the clock');
  await add.getByLabel('Every').fill('90s');
  await add.getByRole('button', { name: 'Set', exact: true }).click();
  await add.locator('[name=every][aria-invalid=true]').waitFor();
  await add.getByLabel('Every').fill('1d');
  await add.getByLabel('Keep').fill('7');
  await add.getByText('holdfast snapshot schedule set tank/files --every 1d --at 03:00 --keep 7', { exact: true }).waitFor();
  // As if there were a year of them from an earlier rule.
  const message = '358 snapshots of that interval would be destroyed at once';
  const error = { code: 'not-confirmed', object: 'volume tank/files', message, next_action: 'keep more' };
  const refuse = { status: 409, contentType: 'application/json', body: JSON.stringify({ error }) };
  await page.route('**/snapshot-schedule?confirm=false', (route) => route.fulfill(refuse), { times: 1 });
  await add.getByRole('button', { name: 'Set', exact: true }).click();
  const anyway = add.getByLabel(/^Do it anyway: 358 snapshots/);
  await add.locator('[name=meant][aria-invalid=true]').waitFor();
  await anyway.check();
  await add.getByLabel('Keep').fill('8');
  await anyway.waitFor({ state: 'detached' });
  await add.getByLabel('Keep').fill('7');
  await anyway.waitFor();
  await add
    .getByText('holdfast snapshot schedule set tank/files --every 1d --at 03:00 --keep 7 --yes', { exact: true })
    .waitFor();
  const sent = page.waitForRequest('**/snapshot-schedule?confirm=true');
  await add.getByRole('button', { name: 'Set and destroy' }).click();
  await sent;
  await add.waitFor({ state: 'detached' });
  const rule = page.getByRole('grid', { name: 'Schedule' }).getByRole('row', { name: /1d/ });
  await rule.getByText('of 7').waitFor();
  await page
    .getByRole('grid', { name: 'Snapshots' })
    .getByRole('row', { name: /auto-1d-/ })
    .waitFor();
  await rule.getByRole('button', { name: 'Actions of every 1d' }).click();
  await page.getByRole('menuitem', { name: 'Remove…' }).click();
  const remove = dialog('Make no snapshots every 1d');
  await remove.getByRole('button', { name: 'Remove', exact: true }).click();
  await remove.waitFor({ state: 'detached' });
  await page.getByText(/No snapshots are made by the clock/).waitFor();
  assert.deepEqual((await server.get<{ rules: unknown[] }>('/volumes/tank/files/snapshot-schedule')).rules, []);
});

test('it is unmounted by the console', { skip }, async () => {
  const { page } = on;
  await visit(page, '/volumes/tank/files', 'tank/files');
  await page.getByRole('button', { name: 'Emergency', exact: true }).click();
  const destroy = page.getByRole('menuitem', { name: 'Destroy…' });
  assert.equal(await destroy.getAttribute('aria-disabled'), 'true', 'a mounted volume is offered to be destroyed');
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'Unmount…' }).click();
  await dialog('Unmount tank/files').getByRole('button', { name: 'Unmount', exact: true }).click();
  // The dialog has words of it, too.
  await page.getByText('Not mounted', { exact: true }).waitFor();
  assert.ok(!isMounted());
});

test('it is destroyed when its name is typed, and its space with it', { skip: without }, async () => {
  const { page, server } = on;
  await visit(page, '/volumes/tank/files', 'tank/files');
  await choose(page, 'Emergency', 'Destroy…');
  const destroy = dialog('Destroy tank/files');
  await destroy.getByLabel(/^Type tank\/files/).fill('tank/file');
  await destroy.getByRole('button', { name: 'Destroy', exact: true }).click();
  await destroy.locator('[aria-invalid=true]').waitFor();
  await destroy.getByLabel(/^Type tank\/files/).fill('tank/files');
  await destroy.getByRole('button', { name: 'Destroy', exact: true }).click();
  await page.getByRole('heading', { level: 1, name: 'Volumes' }).waitFor();
  await page.getByText(/There are no volumes yet/).waitFor();
  assert.deepEqual(
    (await server.get<{ name: string }[]>('/spaces')).map((space) => space.name),
    ['tank/used'],
  );
});

test('nothing went wrong in the pages', { skip: without }, () => assert.deepEqual(on.troubles, []));
