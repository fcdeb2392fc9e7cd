//! The store on a real file: what is kept, what is bounded, and what is refused.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use holdfast_store::{
    AccountRow, AuditLimits, AuditRow, AuditShare, AuditWhich, SessionRow, Store, StoreError, TokenRow,
};

fn open(folder: &Path) -> Store {
    Store::open(folder, AuditLimits::default()).unwrap()
}

fn account(name: &str) -> AccountRow {
    let password_hash = "$argon2id$".into();
    AccountRow {
        name: name.into(),
        role: "viewer".into(),
        enabled: true,
        password_hash,
        created_ms: 1,
        last_login_ms: None,
    }
}

fn token(id: &str, account: &str, byte: u8) -> TokenRow {
    TokenRow {
        id: id.into(),
        name: "t".into(),
        account: account.into(),
        role: "viewer".into(),
        areas: "pools jobs".into(),
        hash: [byte; 32],
        created_ms: 1,
        expires_ms: 9,
        last_used_ms: None,
    }
}

#[test]
fn what_was_kept_is_there_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    assert_eq!(fs::metadata(store.path()).unwrap().permissions().mode() & 0o777, 0o600);
    store.put_account(&account("ann")).unwrap();
    store.put_account(&AccountRow { last_login_ms: Some(7), ..account("ann") }).unwrap();
    store.add_token(&token("1", "ann", 1)).unwrap();
    store.touch_token("1", 5).unwrap();
    store.put_session(&SessionRow { hash: [2; 32], account: "ann".into(), created_ms: 1, seen_ms: 1 }).unwrap();
    store.put_session(&SessionRow { hash: [2; 32], account: "ann".into(), created_ms: 1, seen_ms: 8 }).unwrap();
    store.set_document("a", "1").unwrap();
    store.set_document("a", "2").unwrap();
    drop(store);
    let store = open(folder.path());
    assert_eq!(store.accounts().unwrap(), [AccountRow { last_login_ms: Some(7), ..account("ann") }]);
    assert_eq!(store.tokens().unwrap(), [TokenRow { last_used_ms: Some(5), ..token("1", "ann", 1) }]);
    assert_eq!(store.sessions().unwrap()[0].seen_ms, 8);
    assert_eq!((store.document("a").unwrap().as_deref(), store.document("b").unwrap()), (Some("2"), None));
}

#[test]
fn with_an_account_go_its_tokens_and_sessions() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    for (name, byte) in [("ann", 1), ("bob", 2)] {
        store.put_account(&account(name)).unwrap();
        store.add_token(&token(name, name, byte)).unwrap();
        store.put_session(&SessionRow { hash: [byte; 32], account: name.into(), created_ms: 1, seen_ms: 1 }).unwrap();
    }
    store.put_session(&SessionRow { hash: [3; 32], account: "bob".into(), created_ms: 2, seen_ms: 2 }).unwrap();
    store.delete_sessions_of("bob", Some(&[3; 32])).unwrap();
    store.delete_account("ann").unwrap();
    assert_eq!(store.tokens().unwrap().len(), 1);
    let sessions = store.sessions().unwrap();
    assert_eq!((sessions.len(), sessions[0].hash), (1, [3; 32]));
    assert!(store.add_token(&token("x", "nobody", 9)).is_err(), "a token needs its account");
}

#[test]
fn the_audit_log_keeps_the_newest_within_its_limits() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), AuditLimits { records: 10, bytes: 2000 }).unwrap();
    let record = |number: i64, bytes: usize| AuditRow {
        time_ms: number,
        account: if number % 2 == 0 { "even" } else { "odd" }.into(),
        after: Some("x".repeat(bytes)),
        ..AuditRow::default()
    };
    for number in 1..=25 {
        store.audit_append(&record(number, 10)).unwrap();
    }
    let ids = |which| store.audit(&which).unwrap().iter().map(|row| row.id).collect::<Vec<_>>();
    assert_eq!(ids(AuditWhich { limit: 100, ..Default::default() }), (16..=25).collect::<Vec<_>>());
    assert_eq!(ids(AuditWhich { limit: 2, ..Default::default() }), [24, 25]);
    assert_eq!(ids(AuditWhich { after: Some(17), limit: 2, ..Default::default() }), [18, 19]);
    assert_eq!(ids(AuditWhich { limit: 2, account: Some("even".into()), ..Default::default() }), [22, 24]);
    store.audit_append(&record(26, 1900)).unwrap();
    assert_eq!(ids(AuditWhich { limit: 100, ..Default::default() }).last(), Some(&26));
    assert!(ids(AuditWhich { limit: 100, ..Default::default() }).len() < 10, "bytes are bounded as well");
    drop(store);
    let store = Store::open(folder.path(), AuditLimits { records: 2, bytes: 9000 }).unwrap();
    store.audit_append(&record(27, 10)).unwrap();
    let left = store.audit(&AuditWhich { limit: 100, ..Default::default() }).unwrap();
    assert_eq!(left.iter().map(|row| row.id).collect::<Vec<_>>(), [26, 27], "ids are never given twice");
}

#[test]
fn no_flood_of_attempts_pushes_changes_out() {
    let folder = tempfile::tempdir().unwrap();
    let limits = AuditLimits { records: 40, bytes: 1 << 20 };
    let store = Store::open(folder.path(), limits).unwrap();
    let append = |store: &Store, share, time_ms| {
        store.audit_append(&AuditRow { time_ms, share, ..AuditRow::default() }).unwrap()
    };
    for number in 0..20 {
        append(&store, AuditShare::Changes, number);
    }
    let shares = |store: &Store| {
        let rows = store.audit(&AuditWhich { limit: 100, ..Default::default() }).unwrap();
        [AuditShare::Changes, AuditShare::Own, AuditShare::Attempts]
            .map(|share| rows.iter().filter(|row| row.share == share).map(|row| row.time_ms).collect::<Vec<_>>())
    };
    for number in 0..500 {
        append(&store, AuditShare::Attempts, number);
        append(&store, AuditShare::Own, number);
    }
    let newest = (490..500).collect::<Vec<_>>();
    assert_eq!(shares(&store), [(0..20).collect(), newest.clone(), newest], "a quarter each at most");
    drop(store);
    // What was counted is counted again after a start.
    let store = Store::open(folder.path(), limits).unwrap();
    append(&store, AuditShare::Attempts, 500);
    assert_eq!(shares(&store)[2], (491..=500).collect::<Vec<_>>());
    for number in 20..100 {
        append(&store, AuditShare::Changes, number);
    }
    assert_eq!(shares(&store), [(60..100).collect(), vec![], vec![]], "in all the oldest go");
}

#[test]
fn the_store_of_an_older_version_is_taken_over_with_its_log() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path()));
    let file = rusqlite::Connection::open(folder.path().join(holdfast_store::FILE)).unwrap();
    file.execute_batch(
        "DROP INDEX audit_share; ALTER TABLE audit DROP COLUMN share; PRAGMA user_version = 1;
         INSERT INTO audit VALUES (7, 1, 'ann', '', '', '', '', '', '', '', '', '', NULL, NULL, 200, '', 3);",
    )
    .unwrap();
    drop(file);
    let store = open(folder.path());
    let rows = store.audit(&AuditWhich { limit: 9, ..Default::default() }).unwrap();
    assert_eq!((rows.len(), rows[0].id, rows[0].share), (1, 7, AuditShare::Changes));
}

#[test]
fn a_passing_copy_has_no_name_and_leaves_none_behind() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    store.put_account(&account("ann")).unwrap();
    let names = || {
        let mut names: Vec<_> = fs::read_dir(folder.path()).unwrap().flatten().map(|entry| entry.file_name()).collect();
        names.sort();
        names
    };
    let before = names();
    let mut copy = Vec::new();
    std::io::Read::read_to_end(&mut store.passing_copy().unwrap(), &mut copy).unwrap();
    assert!(copy.starts_with(b"SQLite format 3"));
    assert_eq!(names(), before);
    drop(store);
    // A daemon that was killed while it made one, and what somebody else put there.
    for name in [".copy-3.passing", ".copy-3.passing-journal", "backup-of-mine"] {
        fs::write(folder.path().join(name), "x").unwrap();
    }
    drop(open(folder.path()));
    let left = names();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains(".copy")), "{left:?}");
    assert!(folder.path().join("backup-of-mine").exists());
}

/// Restores, whatever its documents say.
fn restore(file: &Path, folder: &Path) -> Result<Option<PathBuf>, StoreError> {
    holdfast_store::restore(file, folder, |_, _| Ok(()))
}

#[test]
fn documents_that_their_owner_refuses_are_not_restored() {
    let folder = tempfile::tempdir().unwrap();
    let (state, backup) = (folder.path().join("state"), folder.path().join("backup"));
    fs::create_dir(&state).unwrap();
    let store = open(&state);
    store.set_document("a", "1").unwrap();
    store.set_document("b", "garbage").unwrap();
    store.backup(&backup).unwrap();
    store.set_document("b", "2").unwrap();
    drop(store);
    let refused = |name: &str, content: &str| match content {
        "garbage" => Err(StoreError::Damaged { path: name.into(), reason: content.into() }),
        _ => Ok(()),
    };
    let error = holdfast_store::restore(&backup, &state, refused).unwrap_err();
    assert!(matches!(error, StoreError::Damaged { path, .. } if path == Path::new("b")));
    let left: Vec<_> = fs::read_dir(&state).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().contains("config.db.")), "{left:?}");
    assert_eq!(open(&state).document("b").unwrap().as_deref(), Some("2"), "nothing was changed");
}

#[test]
fn a_file_that_is_no_store_in_all_parts_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    fs::create_dir(&state).unwrap();
    let good = folder.path().join("good");
    open(&state).backup(&good).unwrap();
    for (name, act) in [
        ("trigger", "CREATE TRIGGER t AFTER INSERT ON audit BEGIN DELETE FROM accounts; END"),
        ("view", "DROP TABLE sessions; CREATE VIEW sessions AS SELECT 1 AS hash"),
        ("missing", "DROP TABLE audit"),
        ("older", "DROP TABLE audit; PRAGMA user_version = 1"),
    ] {
        let bad = folder.path().join(name);
        fs::copy(&good, &bad).unwrap();
        rusqlite::Connection::open(&bad).unwrap().execute_batch(act).unwrap();
        assert!(matches!(restore(&bad, &state), Err(StoreError::Damaged { path, .. }) if path == bad), "{name}");
        assert!(!state.join("config.db.new").exists());
    }
    restore(&good, &state).unwrap();
    open(&state);
}

#[test]
fn a_backup_is_whole_and_a_restore_keeps_what_it_replaces() {
    let folder = tempfile::tempdir().unwrap();
    let (state, backup) = (folder.path().join("state"), folder.path().join("backup"));
    fs::create_dir(&state).unwrap();
    let store = open(&state);
    store.put_account(&account("ann")).unwrap();
    store.put_session(&SessionRow { hash: [2; 32], account: "ann".into(), created_ms: 1, seen_ms: 1 }).unwrap();
    store.backup(&backup).unwrap();
    assert!(store.backup(&backup).is_err(), "nothing is overwritten");
    assert_eq!(fs::metadata(&backup).unwrap().permissions().mode() & 0o777, 0o600);
    store.put_account(&account("bob")).unwrap();
    drop(store);
    let kept = restore(&backup, &state).unwrap().unwrap();
    let store = open(&state);
    assert_eq!((store.accounts().unwrap().len(), store.sessions().unwrap().len()), (1, 0));
    drop(store);
    assert_eq!(restore(&kept, &state).unwrap().unwrap().extension().unwrap(), "replaced-2");
    assert_eq!(open(&state).accounts().unwrap().len(), 2, "what was replaced can be put back");
}

#[test]
fn what_is_no_whole_store_is_refused_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (state, backup) = (folder.path().join("state"), folder.path().join("backup"));
    fs::create_dir(&state).unwrap();
    let store = open(&state);
    for number in 0..200 {
        store.put_account(&account(&format!("a{number}"))).unwrap();
    }
    store.backup(&backup).unwrap();
    let whole = fs::read(&backup).unwrap();
    let bad = folder.path().join("bad");
    let mut torn = whole.clone();
    torn[4096..8192].fill(0xa5);
    let mut later = whole.clone();
    later[60..64].copy_from_slice(&99u32.to_be_bytes());
    let mut strange = whole.clone();
    strange[68..72].fill(0);
    for (name, bytes) in [
        ("torn", torn),
        ("cut", whole[..5000].to_vec()),
        ("empty", vec![]),
        ("text", b"hello".repeat(999)),
        ("strange", strange),
    ] {
        fs::write(&bad, bytes).unwrap();
        assert!(matches!(restore(&bad, &state), Err(StoreError::Damaged { path, .. }) if path == bad), "{name}");
    }
    fs::write(&bad, later).unwrap();
    assert!(matches!(restore(&bad, &state), Err(StoreError::TooNew(path, 99)) if path == bad));
    assert!(matches!(restore(&folder.path().join("none"), &state), Err(StoreError::Failed { .. })));
    assert_eq!(store.accounts().unwrap().len(), 200);
    drop(store);
    assert_eq!(open(&state).accounts().unwrap().len(), 200);
    let left: Vec<_> = fs::read_dir(&state).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().contains("new")), "{left:?}");
    fs::write(state.join(holdfast_store::FILE), b"hello".repeat(999)).unwrap();
    assert!(matches!(Store::open(&state, AuditLimits::default()), Err(StoreError::Damaged { .. })));
}
