//! Whatever bytes come as a request: parsed within their bounds, or refused.

#[path = "../../../../fuzz/fuzz_targets/fuse/check.rs"]
mod check;

use holdfast_fuse::protocol::constants::{NAMES, WRITE};
use holdfast_fuse::protocol::request::{HEADER_BYTES, Operation, parse};

#[test]
fn kept_inputs_and_changed_ones_are_read_within_their_bounds() {
    let kept = holdfast_harness::corpus::kept("fuse");
    kept.iter().for_each(|input| check::check(input));
    for seed in 0..200_000 {
        check::check(&holdfast_harness::corpus::changed(&kept, seed));
    }
}

#[test]
fn every_kind_of_request_is_kept_and_parsed() {
    let kept = holdfast_harness::corpus::kept("fuse");
    for (opcode, name) in NAMES {
        let of_kind = |input: &&Vec<u8>| input.get(4..8) == Some(&opcode.to_le_bytes()[..]);
        let input = kept.iter().find(of_kind).unwrap_or_else(|| panic!("no {name} is kept"));
        let (_, operation) = parse(input).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(!matches!(operation, Operation::Unknown), "{name}");
        // Cut anywhere it is refused, but for what needs no body and the payload of a write.
        for len in 0..input.len() {
            let cut = parse(&input[..len]);
            assert!(cut.is_err() || (*opcode == WRITE && len >= HEADER_BYTES + 40), "{name} of {len} bytes");
        }
    }
}
