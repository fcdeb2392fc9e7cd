//! Quality of service with two real clients. What is exact is in the benchmark; bounds here are generous.

use holdfast_tests::command::wait_until;
use holdfast_tests::qos::Two;
use serde_json::Value;

#[test]
fn a_cap_is_held_and_remembered() {
    let mut two = Two::default();
    let set = two.daemon.json(&["space", "set", "tank/polite", "--max-iops", "2000"]);
    assert_eq!((&set["changed"], &set["space"]["qos"]["max_iops"]), (&true.into(), &2000.into()), "{set}");
    assert_eq!(two.daemon.json(&["space", "set", "tank/polite", "--max-iops", "2000"])["changed"], false);
    comes_to(&two, 5, 1600.0, 2200.0);
    assert!(two.daemon.metrics().sum("holdfast_qos_throttled_total", "tank/polite") > 1000.0);
    two.daemon.json(&["nbd", "set", "polite", "--max-iops", "500", "--burst-iops", "100"]);
    two.daemon.end();
    two.daemon.start_again();
    let qos = |list: Value| {
        list.as_array().and_then(|list| list.iter().find(|one| one["name"] == "polite")).map(|one| one["qos"].clone())
    };
    assert_eq!(two.daemon.json(&["space", "show", "tank/polite"])["qos"]["max_iops"], 2000);
    assert_eq!(qos(two.daemon.json(&["nbd", "list"])).map(|qos| qos["max_iops"].clone()), Some(500.into()));
    // The lower of both limits holds.
    comes_to(&two, 4, 350.0, 600.0);
    two.daemon.json(&["nbd", "set", "polite", "--max-iops", "0"]);
    two.daemon.json(&["space", "set", "tank/polite", "--max-iops", "0"]);
    // What is lifted holds no more.
    comes_to(&two, 3, 2400.0, f64::INFINITY);
}

/// The polite client gets as many requests a second as are given, and never more; where others use this machine, it may
/// take more than one look.
#[track_caller]
fn comes_to(two: &Two, seconds: u32, least: f64, most: f64) {
    wait_until("it comes to what is given", 180, || {
        let (polite, _) = two.capped(seconds);
        println!("{polite} IOPS of {least} to {most}");
        assert!(polite < most, "{polite} IOPS, which are {most} at most");
        polite > least
    });
}

#[test]
fn limits_that_make_no_sense_change_nothing() {
    let two = Two::default();
    for (arguments, word) in [
        (&["space", "set", "tank/polite", "--burst-iops", "5"][..], "needs a maximum"),
        (&["space", "set", "tank/polite", "--max-bandwidth", "100"], "less than one I/O"),
        (&["space", "set", "tank/polite", "--min-iops", "50", "--max-iops", "10"], "above the maximum"),
        (&["nbd", "set", "polite", "--burst-bandwidth", "1MiB"], "needs a maximum"),
        (&["nbd", "set", "none", "--max-iops", "1"], "none"),
    ] {
        let refused = two.daemon.cli(arguments).refused();
        assert!(refused.contains(word) && refused.contains("next:"), "{arguments:?}: {refused}");
    }
    assert_eq!(two.daemon.json(&["space", "show", "tank/polite"])["qos"]["max_iops"], Value::Null);
}

#[test]
fn a_greedy_client_does_not_starve_a_polite_one() {
    let two = Two::default();
    wait_until("both get on", 180, || {
        let (alone, beside, greedy) = two.neighbours("randread", 4);
        println!("p99 alone {alone:.0} us, beside a greedy client {beside:.0} us; that one did {greedy:.0} IOPS");
        greedy > 1000.0 && beside < (alone * 10.0).max(20_000.0)
    });
}

#[test]
fn history_is_there_after_a_restart_and_clients_are_listed() {
    let mut two = Two::default();
    two.capped(2);
    let busy = |daemon: &holdfast_tests::daemon::Daemon| {
        let history = daemon.json(&["history", "space", "tank/polite", "--last", "10m", "--points", "10"]);
        let reads = history["reads"].as_array().expect("values").iter().filter_map(Value::as_f64).fold(0.0, f64::max);
        let p99 = history["read_p99_us"].as_array().expect("values").iter().filter_map(Value::as_u64).max();
        assert!(p99.is_some_and(|p99| p99 > 0), "{history}");
        reads
    };
    assert!(busy(&two.daemon) > 0.0);
    two.daemon.end();
    two.daemon.start_again();
    assert!(busy(&two.daemon) > 0.0, "the minute that was under way was written");
    two.daemon.please(&["history", "server"]);
    assert_eq!(two.daemon.json(&["nbd", "connections", "polite"]), Value::Array(vec![]));
}
