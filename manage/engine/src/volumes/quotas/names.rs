//! Names of users and groups, as the server knows them: of its files, and of whatever directory it asks for them.
//!
//! Invariant: whoever cannot be asked in time is known by number.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use crate::tools::run;

/// The table of users.
pub(in crate::volumes) const USERS: &str = "passwd";
/// The table of groups.
pub(in crate::volumes) const GROUPS: &str = "group";
/// How long the system may take to look names up.
const TIMEOUT: Duration = Duration::from_secs(3);
const MOST_BYTES: u64 = 1 << 20;
/// Numbers that are looked up at once.
const AT_ONCE: usize = 100;

/// The name and the number in a line of a table.
fn entry(line: &str) -> Option<(&str, u32)> {
    let mut fields = line.split(':');
    let (name, number) = (fields.next()?, fields.nth(1)?);
    Some((name, number.parse().ok()?))
}

async fn entries(table: &str, keys: &[String]) -> Vec<(String, u32)> {
    let arguments: Vec<&str> = std::iter::once(table).chain(keys.iter().map(String::as_str)).collect();
    let Ok(printed) = run(Path::new("getent"), &arguments, TIMEOUT, MOST_BYTES).await else { return Vec::new() };
    let text = String::from_utf8_lossy(&printed.output).into_owned();
    text.lines().filter_map(entry).map(|(name, number)| (name.to_owned(), number)).collect()
}

/// The number of a user or group: the text itself where it is one. The highest means nobody to the system.
pub(in crate::volumes) async fn number(table: &str, name: &str) -> Option<u32> {
    if name.bytes().all(|byte| byte.is_ascii_digit()) {
        // The system would look for what is left of a number that is too large.
        return name.parse().ok().filter(|number| *number != u32::MAX);
    }
    if name.is_empty() || name.starts_with('-') || name.contains([':', '\n', '\0']) {
        return None;
    }
    entries(table, &[name.to_owned()]).await.first().map(|(_, number)| *number)
}

/// The names of users or groups that have some.
pub(in crate::volumes) async fn names(table: &str, numbers: Vec<u32>) -> BTreeMap<u32, String> {
    let mut names = BTreeMap::new();
    for some in numbers.chunks(AT_ONCE) {
        let keys: Vec<String> = some.iter().map(u32::to_string).collect();
        let found = entries(table, &keys).await;
        if found.is_empty() {
            // Who is not answered once is not asked again and again.
            break;
        }
        names.extend(found.into_iter().map(|(name, number)| (number, name)));
    }
    names
}

/// A user with the groups that the server has the user in.
pub(in crate::volumes) struct Account {
    pub(in crate::volumes) uid: u32,
    pub(in crate::volumes) gid: u32,
    pub(in crate::volumes) groups: Vec<u32>,
}

/// A user by name or number; one that the server does not know has a group of the same number, as files of others do.
pub(in crate::volumes) async fn account(user: &str) -> Option<Account> {
    let uid = number(USERS, user).await?;
    let Ok(printed) = run(Path::new("getent"), &[USERS, &uid.to_string()], TIMEOUT, MOST_BYTES).await else {
        return Some(Account { uid, gid: uid, groups: Vec::new() });
    };
    let line = String::from_utf8_lossy(&printed.output).into_owned();
    let mut fields = line.trim().split(':');
    let (name, gid) = (fields.next().unwrap_or_default(), fields.nth(2).and_then(|gid| gid.parse().ok()));
    let Some(gid) = gid else { return Some(Account { uid, gid: uid, groups: Vec::new() }) };
    let asked = run(Path::new("getent"), &["initgroups", name], TIMEOUT, MOST_BYTES).await;
    let listed = asked.map(|printed| String::from_utf8_lossy(&printed.output).into_owned()).unwrap_or_default();
    let groups = listed.split_whitespace().skip(1).filter_map(|gid| gid.parse().ok()).collect();
    Some(Account { uid, gid, groups })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn names_and_numbers_are_those_of_the_system() {
        assert_eq!(entry("root:x:0:0:root:/root:/bin/bash"), Some(("root", 0)));
        assert_eq!(entry("root:x:many"), None);
        assert_eq!(number(USERS, "4711").await, Some(4711));
        assert_eq!((number(USERS, "root").await, number(GROUPS, "root").await), (Some(0), Some(0)));
        for wrong in ["", "no such user here", "--help", "a:b", "4294967295", "4294967297"] {
            assert_eq!(number(USERS, wrong).await, None, "{wrong:?}");
        }
        let root = account("root").await.expect("every system has one");
        assert_eq!((root.uid, root.gid), (0, 0));
        let unknown = account("4000000001").await.expect("a number will do");
        assert_eq!((unknown.uid, unknown.gid, unknown.groups), (4_000_000_001, 4_000_000_001, Vec::new()));
        let names = names(USERS, vec![0, 4_000_000_001]).await;
        assert_eq!(names, BTreeMap::from([(0, "root".to_owned())]));
    }
}
