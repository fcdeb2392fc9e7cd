//! What the metadata log of a pool holds: the changes of a checkpoint or a record, as bytes in a frame.
//!
//! Held up: no panic, a change that is read is the same when it is written and read again, and a configuration that
//! took all of them is the same after it went through a checkpoint.

use holdfast_model::Uuid;
use holdfast_model::wire::Writer;
use holdfast_pool::frame::{Frame, Kind};
use holdfast_pool::{Change, Config, Position};

fn written(change: &Change) -> Vec<u8> {
    let mut writer = Writer::new();
    change.write(&mut writer);
    writer.into_bytes()
}

fn replayed(config: &Config) -> Config {
    let mut copy = Config::default();
    for change in Change::read_all(&config.checkpoint()) {
        let change = change.expect("a checkpoint is read as it was written");
        copy.apply(&change).unwrap_or_else(|error| panic!("a checkpoint is taken: {change:?}: {error}"));
    }
    copy
}

/// Panics where something does not hold.
pub fn check(bytes: &[u8]) {
    // As it lies on a disk, and whatever the bytes are.
    assert!(Frame::open_inline(bytes).is_err() || bytes.len() >= 4096, "a frame fills whole blocks");
    let position = Position { generation: 1, sequence: 1 };
    let id = Uuid::from_u128(1);
    let frame = Frame { kind: Kind::Record, pool: id, disk: id, offset: 0, position, previous: 0 };
    let block = frame.seal(bytes);
    let (header, payload) = Frame::open_inline(&block).expect("as it was sealed");
    assert_eq!((header.frame, payload), (frame, bytes));

    let (mut config, mut read) = (Config::default(), 0);
    for change in Change::read_all(payload) {
        let Ok(change) = change else { return };
        let again = written(&change);
        read += again.len();
        assert!(read <= payload.len(), "{change:?} is written longer than it was");
        let mut second = Change::read_all(&again);
        assert_eq!((second.next(), second.next()), (Some(Ok(change.clone())), None));
        if config.apply(&change).is_err() {
            return;
        }
    }
    assert_eq!(replayed(&config), config);
}
