import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AclEntry } from './api/types';
import { asked, listText, madeOwn, newEntry, placed, placeOf, PLACES, rewritten, rightsWords } from './acl.ts';

const kim = { sid: 'S-1-22-1-1000', name: 'user kim' };

test('a list is put together in the order of NT, and what was not touched keeps its text', () => {
  const deny = rewritten({ ...newEntry(kim, true), kind: 'deny', mask: 0x40000 });
  const above: AclEntry = { ...newEntry(kim, true), inherited: true, sddl: '(A;OICIID;FR;;;WD)' };
  const other: AclEntry = { ...newEntry(kim, false), kind: 'other', sddl: '(XA;;FR;;;WD;(Title=="VP"))' };
  assert.equal(
    listText([above, newEntry(kim, false), other, deny], false),
    'D:(D;OICI;0x40000;;;S-1-22-1-1000)(A;;0x1200a9;;;S-1-22-1-1000)(XA;;FR;;;WD;(Title=="VP"))(A;OICIID;FR;;;WD)',
  );
  assert.equal(listText(madeOwn([above]), true), 'D:P(A;OICI;0x1200a9;;;S-1-22-1-1000)');
  assert.equal(listText([], true), 'D:P');
  assert.equal(rewritten(other).sddl, other.sddl);
});

test('rights have words', () => {
  assert.equal(rightsWords(0x1301bf), 'modify');
  assert.equal(rightsWords(0x10020), 'execute, pass through; delete');
  assert.equal(rightsWords(0), 'nothing');
});

test('an entry applies where it is placed', () => {
  for (const place of PLACES) assert.equal(placeOf(placed(newEntry(kim, true), place.id)), place.id);
  assert.match(placed(newEntry(kim, true), 'files-below').sddl, /^\(A;OIIO;/);
  const deep = { ...newEntry(kim, true), one_level: true };
  assert.match(placed(deep, 'all').sddl, /^\(A;OICINP;/);
  assert.match(placed(deep, 'this').sddl, /^\(A;;/);
  assert.equal(placeOf({ here: false, files: false, directories: false }), '');
});

test('names may say whether they are of a user or a group', () => {
  assert.deepEqual(asked(' user kim '), { kind: 'user', name: 'kim' });
  assert.deepEqual(asked('Group domain users'), { kind: 'group', name: 'domain users' });
  assert.deepEqual(asked('userland'), { kind: null, name: 'userland' });
});
