//! Names of users and groups, as the server knows them: of its files, and of whatever directory it asks for them.
//!
//! Invariant: whoever cannot be asked in time is known by number; an account is told with all its groups or not at all.

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

/// What the system is asked with.
const GETENT: &[&str] = &["getent"];
/// What `getent` ends with where something is not in the table.
const NOT_THERE: i32 = 2;

/// What the system says, or why it says nothing.
async fn ask(getent: &[&str], arguments: &[&str]) -> Result<String, String> {
    let (program, own) = getent.split_first().expect("it is a program");
    let arguments = [own, arguments].concat();
    let printed = run(Path::new(program), &arguments, TIMEOUT, MOST_BYTES).await.map_err(|error| error.to_string())?;
    if !printed.success && printed.code != Some(NOT_THERE) {
        let code = printed.code.map_or_else(|| "a signal".into(), |code| code.to_string());
        return Err(format!("{program} ended with {code}: {}", printed.errors));
    }
    Ok(String::from_utf8_lossy(&printed.output).into_owned())
}

async fn entries(table: &str, keys: &[String]) -> Vec<(String, u32)> {
    let arguments: Vec<&str> = std::iter::once(table).chain(keys.iter().map(String::as_str)).collect();
    let text = ask(GETENT, &arguments).await.unwrap_or_default();
    text.lines().filter_map(entry).map(|(name, number)| (name.to_owned(), number)).collect()
}

/// The number that a text is; the highest means nobody to the system.
fn number_in(text: &str) -> Option<u32> {
    text.parse().ok().filter(|number| *number != u32::MAX && text.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether a text may be asked for as a name. Of a number that is too large, the system would look for what is left.
fn is_name(text: &str) -> bool {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    !is_number && !text.starts_with('-') && !text.contains([':', '\n', '\0'])
}

/// The number of a user or group: the text itself where it is one.
pub(in crate::volumes) async fn number(table: &str, name: &str) -> Option<u32> {
    if let Some(number) = number_in(name) {
        return Some(number);
    }
    if !is_name(name) {
        return None;
    }
    entries(table, &[name.to_owned()]).await.first().map(|(_, number)| *number)
}

/// Users or groups with their numbers: the one of a name or number, or all that the system lists.
pub(in crate::volumes) async fn accounts(table: &str, name: Option<&str>) -> Vec<(String, u32)> {
    match name {
        Some(name) if number_in(name).is_none() && !is_name(name) => Vec::new(),
        name => entries(table, &name.map(str::to_owned).into_iter().collect::<Vec<_>>()).await,
    }
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
#[derive(Debug, PartialEq, Eq)]
pub(in crate::volumes) struct Account {
    pub(in crate::volumes) uid: u32,
    pub(in crate::volumes) gid: u32,
    pub(in crate::volumes) groups: Vec<u32>,
    /// Whether the server knows such a user.
    pub(in crate::volumes) is_known: bool,
}

/// A user by name or number, if there is one; why that cannot be told. One that the server does not know has a group of the
/// same number, as files of others do.
pub(in crate::volumes) async fn account(user: &str) -> Result<Option<Account>, String> {
    account_by(GETENT, user).await
}

async fn account_by(getent: &[&str], user: &str) -> Result<Option<Account>, String> {
    let number = number_in(user);
    if number.is_none() && !is_name(user) {
        return Ok(None);
    }
    let key = number.map_or_else(|| user.to_owned(), |number| number.to_string());
    let found = ask(getent, &[USERS, &key]).await;
    let line = found.map_err(|why| format!("user {user} could not be looked up: {why}"))?;
    let Some((name, uid)) = line.lines().find_map(entry) else {
        return Ok(number.map(|uid| Account { uid, gid: uid, groups: Vec::new(), is_known: false }));
    };
    let refuse = |why: String| format!("groups of {name} could not be looked up: {why}");
    let gid = line.trim().split(':').nth(3).and_then(|gid| gid.parse().ok());
    let gid = gid.ok_or_else(|| refuse("the entry of the user has none".into()))?;
    let listed = ask(getent, &["initgroups", name]).await.map_err(refuse)?;
    let mut words = listed.split_whitespace();
    // It repeats the name, and has no groups after it where there are none.
    if words.next().is_none() {
        return Err(refuse("the answer is empty".into()));
    }
    Ok(Some(Account { uid, gid, groups: words.filter_map(|gid| gid.parse().ok()).collect(), is_known: true }))
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
        let root = account("root").await.expect("it answers").expect("every system has one");
        assert_eq!((root.uid, root.gid, root.is_known), (0, 0, true));
        let unknown = account("4000000001").await.expect("it answers").expect("a number will do");
        let number = 4_000_000_001;
        assert_eq!(unknown, Account { uid: number, gid: number, groups: Vec::new(), is_known: false });
        for wrong in ["", "no such user here", "--help", "a:b", "4294967295", "4294967297"] {
            assert_eq!(account(wrong).await, Ok(None), "{wrong:?}");
        }
        let names = names(USERS, vec![0, 4_000_000_001]).await;
        assert_eq!(names, BTreeMap::from([(0, "root".to_owned())]));
    }

    /// What is said of a user where the system does as a script has it.
    async fn told(user: &str, script: &str) -> Result<Option<Account>, String> {
        account_by(&["sh", "-c", script, "getent"], user).await
    }

    #[tokio::test]
    async fn who_cannot_be_looked_up_is_not_taken_for_somebody_without_groups() {
        let kim = "echo kim:x:1000:100::/home/kim:/bin/sh";
        let both = format!(r#"case "$1" in passwd) {kim};; *) echo "kim 100 27 44";; esac"#);
        let known = Account { uid: 1000, gid: 100, groups: vec![100, 27, 44], is_known: true };
        assert_eq!(told("kim", &both).await, Ok(Some(known)));
        for (failing, why) in [("exit 3", "ended with 3"), ("true", "is empty"), ("kill -9 $$", "a signal")] {
            let script = format!(r#"case "$1" in passwd) {kim};; *) {failing};; esac"#);
            let refused = told("kim", &script).await.expect_err(failing);
            assert!(
                refused.starts_with("groups of kim could not be looked up: ") && refused.contains(why),
                "{refused}"
            );
        }
        for user in ["kim", "1000"] {
            let refused = told(user, "exec sleep 60").await.expect_err("it takes too long");
            assert_eq!(refused, format!("user {user} could not be looked up: it did not end within 3 s"));
        }
        assert_eq!(told("kim", "exit 2").await, Ok(None), "there is none");
        let stranger = Account { uid: 1000, gid: 1000, groups: Vec::new(), is_known: false };
        assert_eq!(told("1000", "exit 2").await, Ok(Some(stranger)));
        let missing = account_by(&["/nonexistent/getent"], "kim").await.expect_err("it cannot be asked");
        assert!(missing.starts_with("user kim could not be looked up"), "{missing}");
    }
}
