import assert from 'node:assert/strict';
import { test } from 'node:test';
import { connectCommands, exportUri, isLocal } from './connect.ts';

test('the URI of an export stands below the address, before its query', () => {
  assert.equal(exportUri('nbd://host:10809', 'vm'), 'nbd://host:10809/vm');
  assert.equal(exportUri('nbd+unix:///?socket=/run/nbd.sock', 'vm'), 'nbd+unix:///vm?socket=/run/nbd.sock');
});

test('the kernel client is told socket or host, and what may be written', () => {
  const kernel = (uri: string, readOnly = false) => connectCommands(uri, 'vm', readOnly).at(-1)!.command;
  assert.equal(kernel('nbd+unix:///vm?socket=/run/nbd.sock'), 'nbd-client -u /run/nbd.sock /dev/nbd0 -N vm');
  assert.equal(kernel('nbd://[::1]:10810/vm', true), 'nbd-client ::1 10810 /dev/nbd0 -N vm -R');
});

test('a unix socket and the loopback are of use on the server alone', () => {
  for (const uri of [
    'nbd+unix:///vm?socket=/run/nbd.sock',
    'nbd://127.0.0.1:10809/vm',
    'nbds://localhost/vm',
    'nbd://[::1]:1/vm',
  ])
    assert.ok(isLocal(uri), uri);
  for (const uri of ['nbd://192.0.2.1:10809/vm', 'nbds://nas.example/vm', 'nbd://[2001:db8::1]/vm'])
    assert.ok(!isLocal(uri), uri);
});

test('nothing that writes is shown for what is read-only', () => {
  assert.ok(!connectCommands('nbd://host/vm', 'vm', true).some(({ command }) => command.includes('image.raw nbd')));
});
