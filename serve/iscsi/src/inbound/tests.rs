use super::*;
use proptest::prelude::*;

/// A PDU as an initiator sends it.
fn pdu(tag: u32, additional: usize, data: &[u8], header_digest: bool, data_digest: bool) -> Vec<u8> {
    let header = Header::new(TEXT, FLAG_FINAL).with_task_tag(tag).with_data_bytes(data.len());
    let header = header.with_u8(4, (additional / 4) as u8);
    let mut bytes = header.0.to_vec();
    bytes.extend(vec![7; additional]);
    if header_digest {
        let digest = crc32c(&bytes);
        bytes.extend(digest.to_le_bytes());
    }
    let from = bytes.len();
    bytes.extend(data);
    bytes.extend(vec![0; padding(data.len())]);
    if data_digest && !data.is_empty() {
        let digest = crc32c(&bytes[from..]);
        bytes.extend(digest.to_le_bytes());
    }
    bytes
}

/// Feeds `stream` in pieces; what came out: tags, and lengths and sums of their data.
fn receive(stream: &[u8], pieces: &[usize], digests: (bool, bool)) -> Vec<(u32, usize, u64)> {
    let mut inbound = Inbound::<Vec<u8>>::new(1 << 20, &[]);
    inbound.agree(digests.0, digests.1, 1 << 20);
    let (mut at, mut found, mut turn) = (0, Vec::new(), 0);
    loop {
        while let Some(incoming) = inbound.take().unwrap() {
            match incoming {
                Incoming::Header(header, _) => {
                    found.push((header.task_tag(), 0, 0));
                    match header.task_tag() % 3 {
                        0 => inbound.begin(vec![0; header.data_bytes() + 10], 10, usize::MAX),
                        1 => inbound.begin(vec![0; header.data_bytes() / 2], 0, usize::MAX),
                        _ => {}
                    }
                }
                Incoming::Data(data) => {
                    let last = found.last_mut().unwrap();
                    (last.1, last.2) = (data.len(), data.iter().map(|byte| u64::from(*byte)).sum());
                }
                Incoming::Damaged(_) => panic!("nothing is damaged"),
                Incoming::Skipped => found.last_mut().unwrap().1 = usize::MAX,
            }
        }
        if at == stream.len() {
            return found;
        }
        let mut taken = 0;
        let spaces = inbound.spaces();
        assert!(spaces.iter().any(|space| !space.is_empty()));
        for space in spaces {
            let len = space.len().min(pieces[turn % pieces.len()] - taken).min(stream.len() - at);
            space[..len].copy_from_slice(&stream[at..at + len]);
            at += len;
            taken += len;
        }
        inbound.filled(taken);
        turn += 1;
    }
}

proptest! {
    #[test]
    fn any_split_of_the_stream_makes_the_same_pdus(
        pdus in prop::collection::vec((0..70_000_usize, 0..4_usize), 1..10),
        pieces in prop::collection::vec(1..9000_usize, 1..8),
        digests: (bool, bool),
    ) {
        let (mut stream, mut expected) = (Vec::new(), Vec::new());
        for (tag, (len, additional)) in pdus.iter().enumerate() {
            let data = vec![tag as u8 + 1; *len];
            stream.extend(pdu(tag as u32, additional * 4, &data, digests.0, digests.1));
            let sum = |len: usize| len as u64 * (tag as u64 + 1);
            expected.push(match (tag % 3, *len) {
                (_, 0) => (tag as u32, 0, 0),
                (0, len) => (tag as u32, len + 10, sum(len)),
                (1, len) => (tag as u32, len / 2, sum(len / 2)),
                _ => (tag as u32, usize::MAX, 0),
            });
        }
        prop_assert_eq!(receive(&stream, &pieces, digests), expected);
    }

    #[test]
    fn any_bytes_are_headers_or_lost(bytes in prop::collection::vec(any::<u8>(), 0..3000), digest: bool) {
        let mut inbound = Inbound::<Vec<u8>>::new(8192, &bytes);
        inbound.agree(digest, digest, 8192);
        while let Ok(Some(_)) = inbound.take() {}
    }
}

#[test]
fn damage_is_noticed() {
    let whole = pdu(0, 4, b"some data", true, true);
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        let mut inbound = Inbound::<Vec<u8>>::new(8192, &bytes);
        inbound.agree(true, true, 8192);
        match inbound.take() {
            Ok(Some(Incoming::Header(header, _))) => {
                assert!(at >= 56, "byte {at}");
                inbound.begin(vec![0; header.data_bytes()], 0, usize::MAX);
                assert!(matches!(inbound.take(), Ok(Some(Incoming::Damaged(_)))), "byte {at}");
            }
            Ok(Some(_)) => panic!("a header comes first"),
            // A changed length may leave the header waiting for more.
            Ok(None) | Err(_) => assert!(at < 56, "byte {at}"),
        }
    }
}

#[test]
fn lengths_beyond_the_limit_are_refused() {
    let header = Header::new(TEXT, 0).with_data_bytes(8193);
    assert_eq!(Inbound::<Vec<u8>>::new(8192, &header.0).take().unwrap_err(), Lost::TooLong(8193));
    let header = Header::new(TEXT, 0).with_u8(4, 255);
    assert_eq!(Inbound::<Vec<u8>>::new(8192, &header.0).take().unwrap_err(), Lost::Additional(1020));
}
