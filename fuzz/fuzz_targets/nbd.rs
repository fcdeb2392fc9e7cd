//! A client's whole stream: handshake, then requests. Both halves are the ones that the server runs, without its I/O.
//!
//! ```text
//!   byte 0    how large the pieces are in which the stream arrives
//!   rest      the stream
//! ```
//!
//! Held up: no panic, no memory beyond the limits, progress at every step, and no request that is out of step with the
//! length that its header announced.

#![no_main]

use holdfast_device::IoBuf;
use holdfast_nbd::inbound::{Inbound, Incoming};
use holdfast_nbd::negotiate::{Agreed, Catalogue, Described, MAX_OPTION_BYTES, Negotiation, Step, TlsPolicy};
use holdfast_nbd::protocol::Request;
use holdfast_nbd::protocol::constants::MAX_PAYLOAD_BYTES;
use libfuzzer_sys::fuzz_target;

/// The largest payload that is taken here; the server takes more, which would only slow the search.
const PAYLOAD_BYTES: u64 = 64 << 10;

struct Disks;

impl Catalogue for Disks {
    type Export = ();

    fn list(&self) -> Vec<(String, String)> {
        vec![("disk".into(), "first".into()), ("read-only".into(), String::new())]
    }

    fn find(&self, name: &str) -> Option<(Described, ())> {
        let described = |name: &str| Described {
            name: name.into(),
            description: "first".into(),
            size_bytes: 1 << 40,
            preferred_bytes: 64 << 10,
            read_only: name == "read-only",
            rotational: true,
        };
        ["disk", "read-only"].contains(&name).then(|| (described(name), ()))
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, stream)) = bytes.split_first() else { return };
    let pace = usize::from(first) * 8 + 1;
    let policy = [TlsPolicy::Absent, TlsPolicy::Optional, TlsPolicy::Required][usize::from(first) % 3];
    if let Some((agreed, rest)) = handshake(stream, pace, policy) {
        transmission(agreed.style.extended(), rest, pace);
    }
});

/// What was agreed, and the bytes behind it.
fn handshake(stream: &[u8], pace: usize, policy: TlsPolicy) -> Option<(Agreed<()>, &[u8])> {
    let mut negotiation = Negotiation::new(policy);
    let (mut start, mut end, mut out) = (0, 0, Vec::new());
    loop {
        let (used, step) = negotiation.advance(&stream[start..end], &mut out, &Disks).ok()?;
        start += used;
        assert!(start <= end, "no byte is used twice");
        assert!(out.len() <= 1 << 20, "one option has a short answer");
        match step {
            Step::Enter(agreed) => return Some((agreed, &stream[start..])),
            Step::Close => return None,
            Step::StartTls => negotiation.tls_started(),
            Step::More if used > 0 => {}
            Step::More => {
                assert!(end - start < MAX_OPTION_BYTES as usize + 16, "a whole option waits for nothing");
                if end == stream.len() {
                    return None;
                }
                end = stream.len().min(end + pace);
            }
        }
        out.clear();
    }
}

fn transmission(extended: bool, stream: &[u8], pace: usize) {
    let (first, mut rest) = stream.split_at(stream.len().min(pace));
    let mut inbound = Inbound::new(extended, first);
    let mut expected = 0;
    let mut announced: Option<Request> = None;
    loop {
        loop {
            let Ok(incoming) = inbound.take() else { return };
            let Some(incoming) = incoming else { break };
            match incoming {
                Incoming::Header(request) => {
                    assert!(announced.is_none(), "a payload is over before the next header");
                    let payload = request.payload_bytes(extended);
                    expected += Request::header_bytes(extended) as u64;
                    if payload == 0 {
                        continue;
                    }
                    announced = Some(request);
                    if payload > PAYLOAD_BYTES.min(MAX_PAYLOAD_BYTES.into()) {
                        inbound.begin_skip(request);
                    } else {
                        let at = (request.offset % 4096) as usize;
                        inbound.begin_payload(request, IoBuf::new(at + payload as usize), at);
                    }
                }
                Incoming::Payload(request, _) | Incoming::Skipped(request) => {
                    assert_eq!(announced.take(), Some(request));
                    expected += request.payload_bytes(extended);
                }
            }
            assert!(expected <= stream.len() as u64, "no request is made of bytes that never came");
        }
        if rest.is_empty() {
            return;
        }
        let mut filled = 0;
        let spaces = inbound.spaces();
        assert!(spaces.iter().any(|space| !space.is_empty()), "there is always space for more");
        for space in spaces {
            let count = space.len().min(rest.len()).min(pace - filled);
            let (now, later) = rest.split_at(count);
            space[..count].copy_from_slice(now);
            rest = later;
            filled += count;
        }
        inbound.filled(filled);
    }
}
