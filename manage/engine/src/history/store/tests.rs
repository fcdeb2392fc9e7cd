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
    // A minute of which there is nothing to keep.
    store.write(Vec::new());
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
    std::fs::write(
        &path,
        "this was never a database, and it is longer than a header of one would be, by far.".repeat(9),
    )
    .unwrap();
    let store = Store::open(folder.path(), events.clone()).unwrap();
    assert!(store.read(space(), 0, 10_000).await.unwrap().is_empty());
    store.close();
    let told: Vec<_> = events.list(0, 10).into_iter().filter(|event| event.cause.contains("is damaged")).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].next_action.contains("history.db.damaged"), "{told:?}");
}

/// A keeper of a file in `folder`, without its thread.
fn keeper(folder: &Path) -> Keeper {
    Keeper { path: folder.join(FILE), events: log(folder), file: None, complained: false, pruned: i64::MIN }
}

/// As many minutes from `at` on as make a clock believed.
fn a_day(at: i64) -> impl Iterator<Item = i64> {
    (0..MINUTES_OF_TRUST).map(move |minute| at + 60 * minute)
}

fn days_held(keeper: &mut Keeper) -> Vec<i64> {
    let rows = keeper.with(|file| read(file, &space(), 0, 1_000_000 * DAY)).unwrap();
    let mut days: Vec<i64> = rows.iter().map(|row| row.at / DAY).collect();
    days.dedup();
    days
}

#[test]
fn a_clock_that_is_wrong_for_a_while_removes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut keeper = keeper(folder.path());
    for day in 100..130 {
        keeper.write(&both(day * DAY, 1));
    }
    a_day(130 * DAY).for_each(|at| keeper.write(&both(at, 1)));
    let before = days_held(&mut keeper);
    assert_eq!(before.len(), 31);
    // Far ahead and far behind, each for a minute and for most of a day.
    for wrong in [9000, 1] {
        keeper.write(&both(wrong * DAY, 1));
        keeper.write(&both(131 * DAY, 1));
        a_day(wrong * DAY).skip(1).take(20 * 60).for_each(|at| keeper.write(&both(at, 1)));
        keeper.write(&both(131 * DAY + 60, 1));
    }
    let held = days_held(&mut keeper);
    // By the clock that is believed, two days are older than 30.
    assert!(before.iter().skip(2).all(|day| held.contains(day)), "{held:?}");
    assert!(!before.iter().take(2).any(|day| held.contains(day)), "{held:?}");
}

#[test]
fn what_is_too_old_goes_once_the_clock_is_believed() {
    let folder = tempfile::tempdir().unwrap();
    let mut keeper = keeper(folder.path());
    for day in [1, 2, 3] {
        keeper.write(&both(day * DAY, 1));
    }
    a_day(60 * DAY).take(MINUTES_OF_TRUST as usize - 1).for_each(|at| keeper.write(&both(at, 1)));
    assert_eq!(days_held(&mut keeper), [1, 2, 3, 60]);
    drop(keeper);
    // Another run of the daemon counts on where this one ended.
    let mut keeper = self::keeper(folder.path());
    keeper.write(&both(61 * DAY, 1));
    assert_eq!(days_held(&mut keeper), [60, 61]);
}

#[test]
fn what_is_too_old_goes_also_after_the_clock_was_set_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut keeper = keeper(folder.path());
    for day in [1, 2, 3, 900] {
        keeper.write(&both(day * DAY, 1));
    }
    a_day(60 * DAY).for_each(|at| keeper.write(&both(at, 1)));
    keeper.write(&both(61 * DAY, 1));
    assert_eq!(keeper.pruned, 61 * DAY);
    assert_eq!(days_held(&mut keeper), [60, 61, 900]);
}

#[test]
fn an_object_that_came_while_the_clock_was_ahead_has_a_history() {
    let folder = tempfile::tempdir().unwrap();
    let mut keeper = keeper(folder.path());
    keeper.write(&both(900 * DAY, 1));
    keeper.write(&both(60 * DAY, 1));
    assert_eq!(days_held(&mut keeper), [60, 900]);
}

#[test]
fn what_is_too_old_or_too_much_goes() {
    let folder = tempfile::tempdir().unwrap();
    let mut file = open(&folder.path().join(FILE)).unwrap();
    let count =
        |file: &Connection| file.query_row("SELECT count(*) FROM minute", [], |row| row.get::<_, i64>(0)).unwrap();
    for day in 0..40 {
        write(&mut file, &both(day * DAY, 1)).unwrap();
    }
    prune(&mut file, 39 * DAY, 10).unwrap();
    assert_eq!(count(&file), 10);
    assert_eq!(read(&mut file, &space(), 0, 40 * DAY).unwrap()[0].at, 35 * DAY, "the newest stay");
    for at in a_day(100 * DAY) {
        write(&mut file, &[row(HistoryKind::Server, at, 1)]).unwrap();
    }
    prune(&mut file, 101 * DAY, ROWS).unwrap();
    let objects: i64 = file.query_row("SELECT count(*) FROM object", [], |row| row.get(0)).unwrap();
    assert_eq!((count(&file), objects), (MINUTES_OF_TRUST, 1), "nothing is left of the space, so it is forgotten");
}
