use super::*;

fn totals(reads: u64) -> Totals {
    Totals { reads, read_bytes: reads * 4096, writes: 1, written_bytes: 512 }
}

fn row(kind: HistoryKind, at: i64, reads: u64) -> Row {
    Row {
        key: Key::new(kind, if kind == HistoryKind::Server { "" } else { "x" }),
        at,
        totals: totals(reads),
        latencies: [1, 2, 3, 4],
    }
}

fn both(at: i64, reads: u64) -> Vec<Row> {
    vec![row(HistoryKind::Server, at, reads), row(HistoryKind::Space, at, reads)]
}

fn space() -> Key {
    Key::new(HistoryKind::Space, "x")
}

fn log(folder: &Path) -> Arc<EventLog> {
    EventLog::open(folder).unwrap()
}

#[tokio::test]
async fn minutes_survive_a_restart_and_parts_of_one_add_up() {
    let folder = tempfile::tempdir().unwrap();
    let events = log(folder.path());
    let store = Store::open(folder.path(), events.clone()).unwrap();
    store.write(both(600, 5));
    store.write(vec![row(HistoryKind::Server, 660, 0)]);
    store.close();
    let store = Store::open(folder.path(), events).unwrap();
    store.write(both(600, 7));
    let rows = store.read(space(), 0, 10_000).await.unwrap();
    assert_eq!(rows.iter().map(|row| (row.at, row.totals.reads)).collect::<Vec<_>>(), [(600, 12), (660, 0)]);
    assert!(
        matches!(store.read(space(), 661, 10_000).await.unwrap()[..], [Row { at: 660, .. }]),
        "part of a minute is asked for"
    );
    assert!(store.read(Key::new(HistoryKind::Space, "y"), 0, 10_000).await.unwrap().is_empty());
    store.close();
    assert!(matches!(store.read(space(), 0, 1).await, Err(Unread::Stopped)));
}

#[tokio::test]
async fn a_damaged_file_is_set_aside_and_a_new_one_begun() {
    let folder = tempfile::tempdir().unwrap();
    let events = log(folder.path());
    let store = Store::open(folder.path(), events.clone()).unwrap();
    (0..2000).for_each(|minute| store.commands.send(Command::Write(both(minute * 60, 1))).unwrap());
    store.close();
    let path = folder.path().join(FILE);
    let mut bytes = std::fs::read(&path).unwrap();
    let (from, to) = (bytes.len() / 4, bytes.len() / 2);
    bytes[from..to].fill(0x5a);
    std::fs::write(&path, bytes).unwrap();
    let store = Store::open(folder.path(), events.clone()).unwrap();
    store.write(both(600, 5));
    assert_eq!(store.read(space(), 0, 10_000).await.unwrap().len(), 1);
    store.close();
    assert!(folder.path().join("history.db.damaged").exists());
    std::fs::write(&path, "this was never a database, and it is longer than a header of one would be, by far.".repeat(9))
        .unwrap();
    let store = Store::open(folder.path(), events.clone()).unwrap();
    assert!(store.read(space(), 0, 10_000).await.unwrap().is_empty());
    store.close();
    let told: Vec<_> = events.list(0, 10).into_iter().filter(|event| event.cause.contains("is damaged")).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].next_action.contains("history.db.damaged"), "{told:?}");
}

#[test]
fn what_is_too_old_goes_also_after_the_clock_was_set_back() {
    let folder = tempfile::tempdir().unwrap();
    let (path, events) = (folder.path().join(FILE), log(folder.path()));
    let mut keeper = Keeper { path, events, file: None, complained: false, pruned: i64::MIN };
    for day in [1, 2, 3, 900, 60] {
        keeper.write(&both(day * DAY, 1));
    }
    assert_eq!(keeper.pruned, 60 * DAY);
    let rows = keeper.with(|file| read(file, &space(), 0, 1000 * DAY)).unwrap();
    assert_eq!(rows.iter().map(|row| row.at / DAY).collect::<Vec<_>>(), [60, 900]);
}

#[test]
fn what_is_too_old_or_too_much_goes() {
    let folder = tempfile::tempdir().unwrap();
    let mut file = open(&folder.path().join(FILE)).unwrap();
    let count = |file: &Connection| file.query_row("SELECT count(*) FROM minute", [], |row| row.get::<_, i64>(0)).unwrap();
    for day in 0..40 {
        write(&mut file, &both(day * DAY, 1)).unwrap();
    }
    prune(&mut file, 39 * DAY, ROWS).unwrap();
    assert_eq!(count(&file), 2 * (DAYS + 1));
    prune(&mut file, 39 * DAY, 10).unwrap();
    assert_eq!(count(&file), 10);
    assert_eq!(read(&mut file, &space(), 0, 40 * DAY).unwrap()[0].at, 35 * DAY, "the newest stay");
    prune(&mut file, 100 * DAY, ROWS).unwrap();
    let objects: i64 = file.query_row("SELECT count(*) FROM object", [], |row| row.get(0)).unwrap();
    assert_eq!((count(&file), objects), (0, 0));
}
