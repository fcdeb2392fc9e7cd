//! PostgreSQL on a mounted volume: the daemon is killed under `pgbench`, again and again, and every row that was committed
//! is there.

use std::collections::HashSet;
use std::time::Duration;

use holdfast_tests::command::run;
use holdfast_tests::postgres::Server;

use crate::support::{Files, length};

const WRITERS: u64 = 2;

#[test]
fn every_commit_is_there_after_each_kill() {
    let mut files = Files::new("1GiB");
    let directory = files.volume("files", &["--size", "1GiB", "--layout", "mirror", "--thin"]);
    let folder = format!("{directory}/postgres");
    std::fs::create_dir(&folder).expect("made");
    let server = Server::new(&files.scene, &folder);
    server.create();
    server.start();
    server.psql("CREATE TABLE committed (id bigint PRIMARY KEY)");
    let filled = server.pgbench(&["-i", "-q", "-s", "2"]).wait();
    assert!(filled.is_ok_and(|status| status.success()), "pgbench fills its tables");
    let mut committed: HashSet<u64> = HashSet::new();
    let rounds = length(2, 30);
    for round in 0..rounds {
        // Without vacuum, which empties the history that the books are compared with.
        let mut load = server.pgbench(&["-n", "-c", "4", "-j", "2", "-T", "120"]);
        let mut writers: Vec<_> =
            (0..WRITERS).map(|writer| server.writer(&files.scene, round * WRITERS + writer)).collect();
        std::thread::sleep(Duration::from_millis(2000 + round % 7 * 300));
        files.daemon.kill();
        let _ = load.kill();
        let _ = load.wait();
        server.bury();
        let before = committed.len();
        for (writer, record) in &mut writers {
            let _ = writer.wait();
            let text = std::fs::read_to_string(&*record).expect("a record can be read");
            // A line that was cut short is no whole number of a row: ids have seven digits or more from the second on.
            let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
            committed.extend(whole.lines().map(|line| line.parse::<u64>().expect("an id a line")));
        }
        assert!(committed.len() > before, "round {round}: nothing was committed before the kill");
        files.daemon.start_again();
        server.start();
        let found: HashSet<u64> =
            server.psql("SELECT id FROM committed").lines().filter_map(|line| line.parse().ok()).collect();
        let lost: Vec<_> = committed.difference(&found).take(10).collect();
        assert!(lost.is_empty(), "round {round}: of {} committed rows these are lost: {lost:?}", committed.len());
        let sums = server.psql(
            "SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT coalesce(sum(delta), 0) FROM pgbench_history) \
             AND (SELECT sum(tbalance) FROM pgbench_tellers) = (SELECT sum(bbalance) FROM pgbench_branches)",
        );
        assert_eq!(sums.trim(), "t", "round {round}: the books of pgbench balance");
        files.scan("files");
    }
    println!("{} committed rows after {rounds} kills", committed.len());
    assert!(server.stop("fast"), "PostgreSQL ends");
    run("sync", &["-f", &directory]).succeeded();
    files.scan("files");
}
