//! Writes of parts of blocks from many connections never undo each other.

use std::sync::Arc;
use std::time::Duration;

use crate::support::Fixture;
use crate::support::client::Client;
use crate::support::memory::Memory;
use holdfast_nbd::protocol::ReplyStyle;
use holdfast_nbd::protocol::constants::*;

const ROUNDS: u8 = 60;

fn neighbours(delay: Duration) {
    let target = Arc::new(Memory::new(1 << 20).slow(delay));
    let fixture = Fixture::new(&[("disk", target)]);
    // Each owns a part of the same two blocks; the last owns the block behind, and writes it whole.
    let parts = [(0_u64, 512_usize), (512, 1000), (1512, 3000), (4512, 3680), (8192, 4096)];
    std::thread::scope(|scope| {
        for (number, (offset, len)) in parts.into_iter().enumerate() {
            let address = if number % 2 == 0 { &fixture.unix } else { &fixture.tcp };
            scope.spawn(move || {
                let (mut client, _) = Client::enter(address, "disk", ReplyStyle::Structured);
                for round in 1..=ROUNDS {
                    if round % 5 == 0 {
                        assert_eq!(client.ask(0, CMD_WRITE_ZEROES, offset, len as u64, &[]).error, 0);
                        assert_eq!(client.read(offset, len), vec![0; len], "part {number} in round {round}");
                    }
                    assert_eq!(client.write(0, offset, &vec![round; len]), 0);
                    assert_eq!(client.read(offset, len), vec![round; len], "part {number} in round {round}");
                }
            });
        }
    });
    let (mut client, _) = Client::enter(&fixture.unix, "disk", ReplyStyle::Simple);
    assert_eq!(client.read(0, 12288), vec![ROUNDS; 12288]);
}

#[test]
fn neighbours_in_a_block_of_a_fast_target() {
    neighbours(Duration::ZERO);
}

#[test]
fn neighbours_in_a_block_of_a_slow_target() {
    neighbours(Duration::from_micros(200));
}

#[test]
fn a_whole_write_is_not_undone_by_a_partial_one() {
    let target = Arc::new(Memory::new(1 << 20).slow(Duration::from_micros(100)));
    let fixture = Fixture::new(&[("disk", target)]);
    std::thread::scope(|scope| {
        let partial = scope.spawn(|| {
            let (mut client, _) = Client::enter(&fixture.unix, "disk", ReplyStyle::Simple);
            for round in 0..200_u8 {
                assert_eq!(client.write(0, 0, &[round; 100]), 0);
            }
        });
        let (mut client, _) = Client::enter(&fixture.unix, "disk", ReplyStyle::Simple);
        let mut round = 0_u8;
        while !partial.is_finished() {
            round = round.wrapping_add(1);
            assert_eq!(client.write(0, 0, &[round; 4096]), 0);
            assert_eq!(client.read(100, 3996), vec![round; 3996]);
        }
    });
}
