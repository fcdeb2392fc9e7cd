//! An initiator's whole stream: a login, then PDUs. Both halves are the ones that the server runs, without its I/O.
//!
//! ```text
//!   byte 0    how large the pieces are in which the stream arrives, and what the target asks for
//!   rest      the stream
//! ```
//!
//! Held up: no panic, no memory beyond the limits, progress at every step, no login past the security stage without the
//! proof, and no data that a write did not ask for.

#![no_main]

use std::time::Duration;

use holdfast_iscsi::inbound::{Inbound, Incoming};
use holdfast_iscsi::login::{Agreed, Closed, Gate, Login, Then, Way};
use holdfast_iscsi::protocol::Header;
use holdfast_iscsi::protocol::constants::{DATA_OUT, SCSI_COMMAND};
use holdfast_iscsi::transfer::{Part, Rules, Transfer};
use holdfast_iscsi::window::{Turn, Window};
use holdfast_iscsi::{Account, protocol::text};
use libfuzzer_sys::fuzz_target;

struct Door {
    guarded: bool,
}

impl Gate for Door {
    fn way(&self, _: &str, target: Option<&str>) -> Result<Way, Closed> {
        let account = |user: &str, secret: &str| self.guarded.then(|| Account::new(user, secret));
        match target {
            Some(target) if !target.ends_with("disk") => Err(Closed::NoTarget),
            _ => {
                let (chap, mutual) = (account("anna", "a secret of anna"), account("disk", "a secret of disk"));
                Ok(Way { alias: Some("disks".into()), group: 1, chap, mutual })
            }
        }
    }

    fn has_session(&self, tsih: u16, _: &str, _: [u8; 6]) -> bool {
        tsih == 1
    }

    fn attempt(&self, _: &str) -> Option<Duration> {
        Some(Duration::ZERO)
    }

    fn attempted(&self, _: &str, right: bool) {
        assert!(!right, "nobody guesses a challenge");
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, stream)) = bytes.split_first() else { return };
    let pace = usize::from(first >> 1) * 8 + 1;
    let guarded = first & 1 != 0;
    if let Some((agreed, rest)) = log_in(stream, pace, guarded) {
        assert!(!guarded, "nobody has the secret");
        full_feature(&agreed, &rest, pace);
    }
});

/// Feeds as much as there is space for, at most `pace` bytes.
fn feed(inbound: &mut Inbound<Vec<u8>>, stream: &[u8], at: &mut usize, pace: usize) -> bool {
    let mut taken = 0;
    for space in inbound.spaces() {
        let len = space.len().min(pace - taken).min(stream.len() - *at);
        space[..len].copy_from_slice(&stream[*at..*at + len]);
        *at += len;
        taken += len;
    }
    inbound.filled(taken);
    taken > 0
}

/// What was agreed on, and the bytes behind it.
fn log_in(stream: &[u8], pace: usize, guarded: bool) -> Option<(Agreed, Vec<u8>)> {
    let (mut inbound, mut login, mut at) = (Inbound::<Vec<u8>>::new(8192, &[]), Login::new(65_536), 0);
    let mut header = None;
    loop {
        let (known, data) = match (inbound.take().ok()?, header) {
            (Some(Incoming::Header(header, _)), _) if header.data_bytes() == 0 => (header, Vec::new()),
            (Some(Incoming::Header(found, _)), _) => {
                inbound.begin(vec![0; found.data_bytes()], 0, usize::MAX);
                header = Some(found);
                continue;
            }
            (Some(Incoming::Data(data)), Some(header)) => (header, data),
            (Some(_), _) => unreachable!("data is placed, and has no digest"),
            (None, _) if feed(&mut inbound, stream, &mut at, pace) => continue,
            (None, _) => return None,
        };
        let step = login.take(&known, &data, &Door { guarded });
        assert!(text::parse(&step.text).is_ok() && step.text.len() <= 64 << 10);
        match step.then {
            Then::Continue => {}
            Then::Close(_) => return None,
            Then::Enter(agreed) => {
                let mut rest = inbound.into_rest();
                rest.extend_from_slice(&stream[at..]);
                return Some((*agreed, rest));
            }
        }
    }
}

fn full_feature(agreed: &Agreed, stream: &[u8], pace: usize) {
    let parameters = &agreed.parameters;
    let limit = parameters.target_segment_bytes as usize;
    let (mut inbound, mut at) = (Inbound::<Vec<u8>>::new(limit, &[]), 0);
    inbound.agree(parameters.header_digest, parameters.data_digest, limit);
    let mut window = Window::new(agreed.cmd_sn, 8);
    let mut write: Option<Transfer> = None;
    let mut tags = 0;
    loop {
        match inbound.take() {
            Err(_) => return,
            Ok(Some(Incoming::Header(header, _))) => {
                assert!(header.data_bytes() <= limit);
                inbound.begin(vec![0; header.data_bytes() / 2], 0, usize::MAX);
                match header.opcode() {
                    SCSI_COMMAND => write = command(&header, agreed, &mut window),
                    DATA_OUT => data(&header, write.as_mut()),
                    _ => {}
                }
                while let Some(request) = write.as_mut().and_then(|write| {
                    write.solicit(|| {
                        tags += 1;
                        tags
                    })
                }) {
                    assert!(request.len > 0 && request.len <= parameters.max_burst_bytes);
                }
            }
            Ok(Some(_)) => {}
            Ok(None) if feed(&mut inbound, stream, &mut at, pace) => {}
            Ok(None) => return,
        }
    }
}

fn command(header: &Header, agreed: &Agreed, window: &mut Window) -> Option<Transfer> {
    let last = window.last();
    if window.look(header.cmd_sn()) == Turn::Now {
        window.pass();
        assert_eq!(window.last(), last.wrapping_add(1));
    }
    let parameters = &agreed.parameters;
    let rules = Rules {
        burst: parameters.max_burst_bytes,
        first_burst: parameters.first_burst_bytes,
        unsolicited: !parameters.initial_r2t,
        outstanding: parameters.max_outstanding_r2t,
    };
    let wanted = header.u32(20).min(1 << 20);
    Transfer::new(rules, wanted, header.u32(20), header.data_bytes() as u32, !header.has(0x80)).ok()
}

fn data(header: &Header, write: Option<&mut Transfer>) {
    let part = Part {
        tag: header.transfer_tag(),
        number: header.u32(36),
        offset: header.u32(40),
        len: header.data_bytes() as u32,
        last: header.has(0x80),
    };
    let _ = write.map(|write| write.accept(part));
}
