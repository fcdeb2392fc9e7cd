import assert from 'node:assert/strict';
import { test } from 'node:test';
import { freeName, nameProblem, passwordProblem } from './names.ts';

test('names that the server takes are right, others say what is wrong', () => {
  for (const name of ['tank', '0', 'a.b_c-d', 'x'.repeat(63)]) assert.equal(nameProblem(name), undefined, name);
  for (const name of ['', '-a', '.a', 'a b', 'a/b', 'ä', 'x'.repeat(64)]) assert.ok(nameProblem(name), name);
});

test('a password is counted in bytes', () => {
  assert.ok(passwordProblem('ninebytes'));
  assert.equal(passwordProblem('ééééé'), undefined);
  assert.ok(passwordProblem('x'.repeat(1025)));
});

test('a free name is the word itself or the next number', () => {
  assert.equal(freeName('tank', []), 'tank');
  assert.equal(freeName('tank', ['tank', 'tank2']), 'tank3');
});
