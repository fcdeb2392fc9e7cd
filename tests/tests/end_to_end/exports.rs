//! Several exports of one space: clients of all of them write parts of the same blocks, and no write undoes another.

use std::sync::atomic::{AtomicBool, Ordering};

use holdfast_tests::daemon::Daemon;
use holdfast_tests::nbd::Client;
use holdfast_tests::scene::Scene;

const BLOCK_BYTES: u64 = 4096;
const PIECE_BYTES: usize = 512;
const CLIENTS: u64 = 4;
/// Writes of each client in a round.
const WRITES: u64 = 400;

fn piece(client: u64, number: u64) -> Vec<u8> {
    (client << 32 | number).to_le_bytes().repeat(PIECE_BYTES / 8)
}

/// Each client writes its own two pieces of the block at `at`, by one of two exports, and reads each back; every fourth
/// write is of zeros. Beside them one writes the block behind as a whole. All that was answered is there in the end.
fn write_pieces(daemon: &Daemon, at: u64) {
    let socket = daemon.nbd_socket();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let socket = &socket;
                scope.spawn(move || {
                    let mut client =
                        Client::connect(socket, ["vm", "other"][number as usize % 2]).expect("it is exported");
                    for write in 0..WRITES {
                        let offset = at + (number + CLIENTS * (write % 2)) * PIECE_BYTES as u64;
                        let mut data = piece(number, write);
                        if write % 4 == 3 && write + 2 < WRITES {
                            data.fill(0);
                            client.write_zeroes(offset, PIECE_BYTES as u32).expect("zeros");
                        } else {
                            client.write(offset, &data, write % 16 == 0).expect("a write");
                        }
                        let found = client.read(offset, PIECE_BYTES).expect("a read");
                        assert!(found == data, "write {write} of client {number} was answered, and is lost");
                    }
                })
            })
            .collect();
        let whole = scope.spawn(|| {
            let mut client = Client::connect(&socket, "other").expect("it is exported");
            let mut number = 0u64;
            while !done.load(Ordering::Relaxed) {
                number += 1;
                let data = number.to_le_bytes().repeat(BLOCK_BYTES as usize / 8);
                client.write(at + BLOCK_BYTES, &data, false).expect("a write");
                assert!(
                    client.read(at + BLOCK_BYTES, data.len()).expect("a read") == data,
                    "whole write {number} is lost"
                );
            }
        });
        let failed = clients.into_iter().map(|client| client.join()).filter(Result::is_err).count();
        done.store(true, Ordering::Relaxed);
        whole.join().expect("the whole blocks are there");
        assert_eq!(failed, 0, "clients that lost a write");
    });
    let mut client = Client::connect(&socket, "vm").expect("it is exported");
    let block = client.read(at, BLOCK_BYTES as usize).expect("a read");
    for (place, found) in block.chunks_exact(PIECE_BYTES).enumerate() {
        let (number, turn) = (place as u64 % CLIENTS, place as u64 / CLIENTS);
        assert!(found == piece(number, WRITES - 2 + turn), "piece {place} is not as it was written last");
    }
}

/// Also after an export was withdrawn and made again, and after the space grew.
#[test]
fn writes_of_parts_of_a_block_by_two_exports_undo_nothing() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene);
    daemon.pool(&scene, "tank", 3, "256MiB");
    daemon.space("tank/vm", &["--layout", "mirror", "--size", "32MiB", "--thin"]);
    daemon.please(&["nbd", "export", "tank/vm", "--name", "other"]);
    write_pieces(&daemon, 0);

    // The connection by the first export outlives the second one.
    let mut kept = Client::connect(&daemon.nbd_socket(), "vm").expect("it is exported");
    daemon.please(&["nbd", "unexport", "other"]);
    daemon.please(&["nbd", "export", "tank/vm", "--name", "other"]);
    write_pieces(&daemon, 8 * BLOCK_BYTES);

    daemon.please(&["space", "grow", "tank/vm", "--size", "64MiB"]);
    write_pieces(&daemon, 48 << 20);
    assert_eq!(kept.read(BLOCK_BYTES * 10, 4).expect("the first export serves on"), [0; 4]);
}

#[test]
fn writes_of_parts_of_a_block_of_a_parity_space_by_two_exports_undo_nothing() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene);
    daemon.pool(&scene, "tank", 4, "256MiB");
    daemon.space("tank/vm", &["--layout", "parity", "--columns", "4", "--interleave", "64KiB", "--size", "32MiB"]);
    daemon.please(&["nbd", "export", "tank/vm", "--name", "other"]);
    write_pieces(&daemon, 64 << 10);
}
