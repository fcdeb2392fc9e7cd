//! Spaces on disks that do one thing at a time, as fast as the work costs.

use std::collections::VecDeque;

use futures_util::FutureExt;
use proptest::prelude::*;

use super::*;

/// What a unit of work takes on the disks.
const UNIT: Duration = Duration::from_micros(50);

/// Clients of one object that always have so many requests of one size under way.
struct Client {
    flow_id: FlowId,
    depth: usize,
    cost: u64,
    waiting: Vec<(Duration, QueuedEntry)>,
    out: usize,
    done: u64,
    longest: Duration,
}

struct Disks {
    balancer: Arc<Balancer>,
    now: Duration,
    clients: Vec<Client>,
    /// By client: when a request was asked for, what it costs, and what is to be given back.
    line: VecDeque<(usize, Duration, u64)>,
}

impl Disks {
    fn new(clients: &[(usize, u64, Option<u64>)]) -> Self {
        let balancer = Balancer::new(4);
        let client = |&(depth, cost, min): &(usize, u64, Option<u64>)| {
            let flow_id = balancer.join();
            balancer.set_min(flow_id, min, Duration::ZERO);
            Client { flow_id, depth, cost, waiting: vec![], out: 0, done: 0, longest: Duration::ZERO }
        };
        let clients = clients.iter().map(client).collect();
        Self { balancer, now: Duration::from_secs(1), clients, line: VecDeque::new() }
    }

    fn ask(&mut self) {
        for (number, client) in self.clients.iter_mut().enumerate() {
            while client.out < client.depth {
                client.out += 1;
                match self.balancer.enter(client.flow_id, client.cost, self.now) {
                    Entry::Now(counted) => self.line.push_back((number, self.now, counted)),
                    Entry::Wait(turn) => client.waiting.push((self.now, turn)),
                }
            }
        }
    }

    fn begin(&mut self) {
        for (number, client) in self.clients.iter_mut().enumerate() {
            let line = &mut self.line;
            client.waiting.retain_mut(|(asked, turn)| match turn.now_or_never() {
                Some(counted) => {
                    line.push_back((number, *asked, counted));
                    false
                }
                None => true,
            });
        }
    }

    /// Serves the first in line.
    fn serve(&mut self) {
        let (number, asked, counted) = self.line.pop_front().expect("whoever waits, waits for somebody");
        let client = &mut self.clients[number];
        self.now += UNIT * client.cost as u32;
        client.out -= 1;
        client.done += client.cost;
        client.longest = client.longest.max(self.now - asked);
        if counted > 0 {
            self.balancer.end(client.flow_id, counted, self.now);
        }
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.ask();
            self.begin();
            self.serve();
        }
    }

    fn reset(&mut self) {
        self.clients.iter_mut().for_each(|client| (client.done, client.longest) = (0, Duration::ZERO));
    }

    /// What the first did, for each one that the second did.
    fn ratio(&self) -> f64 {
        self.clients[0].done as f64 / self.clients[1].done as f64
    }
}

#[test]
fn one_that_is_alone_is_not_held_up() {
    let mut disks = Disks::new(&[(128, 1, None)]);
    disks.ask();
    assert_eq!((disks.line.len(), disks.balancer.waited()), (128, 0));
}

#[test]
fn a_polite_one_finds_a_short_line() {
    let mut disks = Disks::new(&[(128, 1, None), (1, 1, None)]);
    disks.run(Duration::from_millis(500));
    disks.reset();
    disks.run(Duration::from_secs(1));
    let window = disks.balancer.inner().window as u32;
    assert!(disks.clients[1].longest <= UNIT * (window + 2), "{:?}", disks.clients[1].longest);
    assert!(disks.clients[0].done + disks.clients[1].done >= 19_900, "the disks are never idle");
}

#[test]
fn large_requests_keep_all_disks_busy() {
    let mut disks = Disks::new(&[(64, 8, None), (1, 1, None)]);
    disks.ask();
    disks.run(Duration::from_millis(50));
    let window = disks.balancer.inner().window as usize;
    assert!(disks.line.len() >= window - 1, "{} of a window of {window}", disks.line.len());
}

#[test]
fn objects_get_on_by_cost_and_not_by_count() {
    let mut disks = Disks::new(&[(64, 8, None), (64, 1, None)]);
    disks.run(Duration::from_secs(1));
    disks.reset();
    disks.run(Duration::from_secs(2));
    assert!((0.8..1.25).contains(&disks.ratio()), "{}", disks.ratio());
}

#[test]
fn weights_are_kept() {
    let mut disks = Disks::new(&[(64, 1, Some(3000)), (64, 1, None)]);
    disks.run(Duration::from_secs(1));
    disks.reset();
    disks.run(Duration::from_secs(2));
    assert!(disks.ratio() >= 3.5, "{}", disks.ratio());
    // 20,000 units a second are done.
    assert!(disks.clients[0].done >= 2 * 3000, "the minimum is kept");
}

#[test]
fn one_that_is_alone_again_is_let_go_on() {
    let mut disks = Disks::new(&[(128, 1, None), (1, 1, None)]);
    disks.run(Duration::from_millis(500));
    disks.clients[1].depth = 0;
    disks.run(Duration::from_millis(500));
    assert!(disks.clients[0].waiting.is_empty(), "{}", disks.clients[0].waiting.len());
}

#[test]
fn whoever_leaves_holds_nobody_up() {
    let mut disks = Disks::new(&[(128, 1, None), (1, 1, None)]);
    disks.run(Duration::from_millis(500));
    assert!(!disks.clients[0].waiting.is_empty());
    disks.balancer.leave(disks.clients[0].flow_id);
    disks.begin();
    assert!(disks.clients[0].waiting.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn shares_converge_whatever_is_asked_for(
        one in (20usize..128, 1u64..16), other in (20usize..128, 1u64..16), weight in 0u64..4,
    ) {
        // Who has less under way than the window takes does not always wait, and gets what it asks for instead of its
        // share.
        let mut disks = Disks::new(&[(one.0, one.1, None), (other.0, other.1, None)]);
        if let Some(flow) = disks.balancer.inner().flows.get_mut(&disks.clients[0].flow_id.0) {
            flow.weight = 1.0 + weight as f64;
        }
        disks.run(Duration::from_secs(1));
        disks.reset();
        disks.run(Duration::from_secs(4));
        let (ratio, wanted) = (disks.ratio(), 1.0 + weight as f64);
        prop_assert!(ratio > wanted * 0.85 && ratio < wanted * 1.15, "{ratio} for {wanted}");
    }
}

proptest! {
    #[test]
    fn giving_up_leaves_nothing_behind(steps in prop::collection::vec((0usize..3, 0usize..4), 1..300)) {
        let mut disks = Disks::new(&[(0, 1, None), (0, 3, None), (0, 20, None)]);
        for (client, act) in steps {
            match act {
                0 | 1 => {
                    disks.clients[client].depth = disks.clients[client].out + 4;
                    disks.ask();
                    disks.clients[client].depth = 0;
                }
                2 => {
                    let given_up = disks.clients[client].waiting.pop().is_some();
                    disks.clients[client].out -= usize::from(given_up);
                }
                _ => {
                    disks.begin();
                    if !disks.line.is_empty() {
                        disks.serve();
                    }
                }
            }
        }
        loop {
            disks.begin();
            if disks.line.is_empty() {
                break;
            }
            disks.serve();
        }
        prop_assert!(disks.clients.iter().all(|client| client.waiting.is_empty() && client.out == 0));
        let inner = disks.balancer.inner();
        prop_assert_eq!(inner.in_service, 0);
        prop_assert!(inner.flows.values().all(|flow| flow.in_service == 0 && flow.waiting.is_empty() && flow.granted.is_empty()));
    }
}
