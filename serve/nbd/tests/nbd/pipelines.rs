//! Clients that send many requests without taking a reply in between.

use std::sync::Arc;

use crate::support::Fixture;
use crate::support::client::Client;
use crate::support::memory::Memory;
use holdfast_harness::wait_until;
use holdfast_nbd::NbdSettings;
use holdfast_nbd::protocol::ReplyStyle;
use holdfast_nbd::protocol::constants::*;

const LARGE: usize = 64 << 10;

fn disk() -> Arc<Memory> {
    Arc::new(Memory::new(1 << 20))
}

fn send_write(client: &mut Client, at: u64, byte: u8, len: usize) {
    client.send(0, CMD_WRITE, at, len as u64, &vec![byte; len]);
}

#[test]
fn requests_are_served_in_the_order_in_which_they_came() {
    let fixture = Fixture::new(&[("disk", disk())]);
    for (address, style) in [(&fixture.unix, ReplyStyle::Structured), (&fixture.tcp, ReplyStyle::Simple)] {
        let (mut client, _) = Client::enter(address, "disk", style);
        for round in 0..20u8 {
            for byte in 1..=9 {
                send_write(&mut client, u64::from(byte % 3) * LARGE as u64, round + byte, LARGE);
            }
            send_write(&mut client, 4096, 200, 4096);
            send_write(&mut client, 0, 201, LARGE);
            let last = client.send(0, CMD_READ, 0, 8192, &[]);
            send_write(&mut client, 0, 202, LARGE);
            client.send(0, CMD_FLUSH, 0, 0, &[]);
            let mut answered = 0;
            while answered < 14 {
                let reply = client.reply();
                assert_eq!(reply.error, 0);
                if reply.cookie == last {
                    let bytes: Vec<u8> = reply.data.into_iter().flat_map(|(_, bytes)| bytes).collect();
                    assert_eq!(bytes, [201; 8192]);
                }
                answered += 1;
            }
            assert_eq!(client.read(2 * LARGE as u64, 4096), [round + 8; 4096]);
        }
    }
}

#[test]
fn what_came_in_whole_before_its_client_took_leave_is_done() {
    let fixture = Fixture::new(&[("disk", disk())]);
    let (mut leaving, _) = Client::enter(&fixture.unix, "disk", ReplyStyle::Structured);
    for at in 0..3 {
        send_write(&mut leaving, at * LARGE as u64, 7, LARGE);
    }
    leaving.send(0, CMD_DISC, 0, 0, &[]);
    wait_until("the connection has ended", || fixture.server().connections().is_empty());
    let (mut client, _) = Client::enter(&fixture.unix, "disk", ReplyStyle::Structured);
    assert_eq!(client.read(0, 3 * LARGE), vec![7; 3 * LARGE]);
}

#[test]
fn limits_hold_nobody_up_for_good() {
    for (requests, payload_bytes) in [(1, 1 << 20), (2, 96 << 10), (16, 130 << 10), (3, 4096)] {
        let settings = NbdSettings { requests, payload_bytes, ..NbdSettings::default() };
        let fixture = Fixture::with(&[("disk", disk())], settings);
        let (mut client, _) = Client::enter(&fixture.unix, "disk", ReplyStyle::Structured);
        for number in 0..40 {
            send_write(&mut client, 0, number, if number % 4 == 3 { 4096 } else { LARGE });
        }
        for _ in 0..40 {
            assert_eq!(client.reply().error, 0);
        }
        assert_eq!(client.read(0, 4096), [39; 4096]);
    }
}
