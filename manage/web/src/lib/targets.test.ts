// Names, addresses and numbers of targets, as the server takes them.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  addressesOf,
  addressProblem,
  fileProblem,
  iqnProblem,
  alertProblem,
  alertWords,
  lunProblem,
  secretProblem,
  targetWord,
  whoWords,
} from './targets.ts';

test('iSCSI names are iqn, eui and naa', () => {
  for (const name of ['iqn.1991-05.com.microsoft:host-1', 'iqn.2026-11.org.holdfast:nas:vm', 'iqn.1998-01.com.vmware:esx-12ab']) {
    assert.equal(iqnProblem(name), undefined, name);
  }
  assert.equal(iqnProblem('eui.02004567a425678d'), undefined);
  assert.equal(iqnProblem('naa.52004567ba64678d'), undefined);
  for (const name of [
    '',
    'host',
    'iqn.91-05.com.x',
    'iqn.1991-13.com.x:y',
    'eui.12',
    'iqn.1991-05.com.x:a b',
    `iqn.1991-05.com.${'x'.repeat(223)}`,
  ]) {
    assert.notEqual(iqnProblem(name), undefined, name);
  }
});

test('secrets have 12 to 255 bytes', () => {
  assert.equal(secretProblem('elevenchars') === undefined, false);
  assert.equal(secretProblem('twelve chars'), undefined);
  assert.equal(secretProblem('ü'.repeat(6)), undefined);
  assert.equal(secretProblem('x'.repeat(256)) === undefined, false);
});

test('addresses are HOST:PORT, and the port may be left out', () => {
  for (const address of ['192.0.2.1:3260', '192.0.2.1', '[2001:db8::1]:3260', '[::1]', 'nas.example:1']) {
    assert.equal(addressProblem(address), undefined, address);
  }
  for (const address of ['', '2001:db8::1', 'nas:0', 'nas:70000', 'nas:x', 'a b:1']) {
    assert.notEqual(addressProblem(address), undefined, address);
  }
  assert.deepEqual(addressesOf(' a:1,b:2\n[::1]:3  '), ['a:1', 'b:2', '[::1]:3']);
});

test('a LUN has a number up to 255, and a file a path from the root', () => {
  for (const text of ['', '0', '255']) assert.equal(lunProblem(text), undefined, text);
  for (const text of ['256', '-1', 'one', '1.5']) assert.notEqual(lunProblem(text), undefined, text);
  for (const text of ['', '0', '100']) assert.equal(alertProblem(text), undefined, text);
  for (const text of ['101', '-1', '8 %']) assert.notEqual(alertProblem(text), undefined, text);
  for (const path of ['/disk', '/vm/disk.raw']) assert.equal(fileProblem(path), undefined, path);
  for (const path of ['', 'disk', '/', '/vm/', '/vm//disk', '/vm/../disk']) assert.notEqual(fileProblem(path), undefined, path);
});

test('a target that lets nobody in is no target that is well', () => {
  const target = { served: true, health: 'healthy' as const, open: false, initiators: [] };
  const one = { iqn: 'iqn.1991-05.com.microsoft:a', chap_user: null, sessions: 0 };
  assert.equal(targetWord(target).tone, 'warning');
  assert.equal(targetWord({ ...target, open: true }).text, 'Served');
  assert.equal(targetWord({ ...target, served: false }).tone, 'error');
  assert.equal(targetWord({ ...target, health: 'unhealthy' }).tone, 'error');
  assert.equal(whoWords(target), 'Nobody');
  assert.equal(whoWords({ ...target, initiators: [one] }), one.iqn);
  assert.equal(whoWords({ ...target, initiators: [one, one] }), '2 initiators');
  assert.equal(whoWords({ ...target, open: true, initiators: [one] }), 'Any initiator');
});

test('when initiators are warned is said', () => {
  assert.equal(alertWords(null), '–');
  assert.equal(alertWords({ percent: 0, default: false, reached: false }), 'never');
  assert.equal(alertWords({ percent: 85, default: true, reached: true }), 'at 85 %, now');
});
