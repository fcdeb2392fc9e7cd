//! How long a check takes: it is on the path of every open.

use std::hint::black_box;
use std::time::Instant;

use holdfast_identity::{Access, AccessMask, Membership, Node, Privileges, Sid, Token, check, computed};

use crate::common::{ALICE, descriptor, sid};

#[test]
#[ignore = "prints a figure, and checks nothing: cargo test --release -p holdfast-identity -- --ignored --nocapture"]
fn nanoseconds_a_check() {
    let groups: Vec<(Sid, Membership)> =
        (2000..2050).map(|rid| (sid(&format!("S-1-5-21-1-2-3-{rid}")), Membership::Enabled)).collect();
    let token = Token::new(sid(ALICE), sid("S-1-5-21-1-2-3-513"), &groups, Privileges::empty()).expect("few");
    let list: String = (2100..2118).map(|rid| format!("(A;;FA;;;S-1-5-21-1-2-3-{rid})")).collect();
    let cases = [
        ("computed from a mode", computed(sid("S-1-22-1-5"), sid("S-1-22-2-7"), 0o644, Node::File)),
        (
            "5 entries, the last grants",
            descriptor("O:BAD:(A;;FA;;;BA)(A;;FA;;;SY)(A;OICIIO;FA;;;CO)(A;;FW;;;BU)(A;;FR;;;WD)"),
        ),
        ("20 entries, the last grants", descriptor(&format!("O:BAD:(D;;FA;;;AN){list}(A;;FR;;;WD)"))),
    ];
    const TIMES: u32 = 1_000_000;
    for (what, given) in cases {
        let begun = Instant::now();
        for _ in 0..TIMES {
            let granted = check(black_box(&given), black_box(&token), Access::to(AccessMask::FILE_READ));
            assert!(granted.is_ok());
        }
        println!("{what}, 51 groups: {} ns a check", begun.elapsed().as_nanos() / u128::from(TIMES));
    }
}
