// The request and the messages of the volume wizard.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { volumeField, volumeProblems, volumeRequest, type VolumeForm } from './volume.ts';

const form: VolumeForm = {
  pool: 'tank',
  name: 'files',
  place: 'new',
  on: '',
  resilience: 'mirror-2',
  size: '1GiB',
  thin: true,
  checksums: true,
  caseSensitive: false,
};

test('a new space is called like its volume', () => {
  assert.deepEqual(volumeRequest(form), {
    name: 'tank/files',
    space: { name: 'tank/files', layout: 'mirror', copies: 2, size_bytes: 1024 ** 3, thin: true },
  });
});

test('a new space has checksums unless it is to have none', () => {
  assert.equal(volumeRequest({ ...form, checksums: false }).space?.integrity, 'none');
  assert.equal(volumeRequest({ ...form, checksums: false, place: 'existing', on: 'tank/vm' }).space, undefined);
});

test('a space that exists is taken as it is', () => {
  const on = { ...form, place: 'existing', on: 'tank/vm', size: '', caseSensitive: true };
  assert.deepEqual(volumeRequest(on), { name: 'tank/files', on: 'tank/vm', case_sensitive: true });
  assert.deepEqual(Object.values(volumeProblems(on)).filter(Boolean), []);
  assert.match(volumeProblems({ ...on, on: '' })['on'] ?? '', /no space that is free/);
});

test('a size is needed for a new space only', () => {
  assert.match(volumeProblems({ ...form, size: '' })['size'] ?? '', /Enter a size/);
});

test('a refusal stands at the field that it is about', () => {
  assert.equal(volumeField({ code: 'invalid', field: 'space.size_bytes' }), 'size');
  assert.equal(volumeField({ code: 'conflict', field: 'on' }), 'on');
  assert.equal(volumeField({ code: 'exists', field: 'case_sensitive' }), 'case');
  assert.equal(volumeField({ code: 'exists', field: 'name' }), 'name');
  assert.equal(volumeField({ code: 'not-found', field: 'name' }), 'pool');
  assert.equal(volumeField({ code: 'conflict', field: null }), undefined);
});
