//! Documents of a pool: kept wherever it goes, bounded, and never in the way of its rows.

use std::sync::Arc;

use crate::common::*;
use holdfast_model::{Layout, Provisioning};
use holdfast_pool::{MOST_DOCUMENT_BYTES, Pool, PoolError, PoolErrorKind};

fn set(lab: &Lab, pool: &Arc<Pool>, key: &str, content: Option<&[u8]>) -> Result<bool, PoolError> {
    let (pool, key, content) = (pool.clone(), key.to_string(), content.map(<[u8]>::to_vec));
    lab.run(async move { pool.set_document(&key, content).await })
}

#[test]
fn what_is_kept_travels_with_the_disks() {
    let lab = Lab::small(1, 3);
    let pool = lab.created(&lab.all());
    assert_eq!(set(&lab, &pool, "export/vm", Some(b"one")), Ok(true));
    assert_eq!(set(&lab, &pool, "export/vm", Some(b"one")), Ok(false), "nothing is written where nothing changes");
    assert_eq!(set(&lab, &pool, "export/vm", Some(b"two")), Ok(true));
    assert_eq!(set(&lab, &pool, "export/vn", Some(b"")), Ok(true));
    assert_eq!(set(&lab, &pool, "job", Some(b"3")), Ok(true));
    assert_eq!(set(&lab, &pool, "job", None), Ok(true));
    assert_eq!(set(&lab, &pool, "job", None), Ok(false));
    lab.kill(pool);
    // A disk that was away learns of it, and alone it is enough to read them.
    for disks in [vec![0, 1], vec![0, 1, 2]] {
        let pool = lab.imported(&disks);
        assert_eq!(pool.document("export/vm").as_deref(), Some(&b"two"[..]));
        let exports = vec![("export/vm".to_string(), b"two".to_vec()), ("export/vn".to_string(), Vec::new())];
        assert_eq!((pool.documents("export/"), pool.documents("job")), (exports, Vec::new()));
        assert_eq!(pool.check(), Ok(()));
        lab.kill(pool);
    }
    assert_eq!(lab.found(&[2]).config.documents.len(), 2);
}

#[test]
fn they_are_bounded_and_leave_rows_their_room() {
    let lab = Lab::small(2, 2);
    let pool = lab.created(&[0, 1]);
    for (key, len) in [("", 1), (&*"k".repeat(201), 1), ("k", MOST_DOCUMENT_BYTES + 1)] {
        let refused = set(&lab, &pool, key, Some(&vec![1; len])).expect_err("beyond a bound");
        assert!(matches!(refused.kind, PoolErrorKind::Invalid | PoolErrorKind::NoSpace), "{refused}");
    }
    let space = {
        let pool = pool.clone();
        let spec = spec("vm", Layout::Simple, 1, Provisioning::Thin, 1 << 30);
        lab.run(async move { pool.create_space(spec).await }).expect("thin").id
    };
    let mut kept = 0;
    let refused = loop {
        match set(&lab, &pool, &format!("k{kept}"), Some(&vec![7; 8 << 10])) {
            Ok(made) => assert!(made),
            Err(refused) => break refused,
        }
        kept += 1;
    };
    assert!(kept > 2 && refused.kind == PoolErrorKind::NoSpace, "{kept}: {refused}");
    assert!(refused.context.contains("remove what is not needed"), "{refused}");
    for chunk in 0..40 {
        lab.row(&pool, space, chunk).expect("documents take no room of rows");
    }
    assert_eq!(set(&lab, &pool, "k0", None), Ok(true));
    assert_eq!(set(&lab, &pool, "new", Some(&vec![7; 8 << 10])), Ok(true));
    assert_eq!(pool.check(), Ok(()));
    let before = pool.documents("");
    lab.kill(pool);
    assert_eq!(lab.imported(&[0, 1]).documents(""), before);
}

/// As many as there are exports on one host, each with an id and a long name, on disks with the smallest log.
#[test]
fn a_thousand_small_ones_fit_the_smallest_disks() {
    let lab = Lab::small(4, 2);
    let pool = lab.created(&[0, 1]);
    for nth in 0..1000 {
        let content = format!("{{\"space\":\"{nth:036}\"}}");
        let key = format!("export/virtual-disk-{nth:07}");
        assert_eq!(set(&lab, &pool, &key, Some(content.as_bytes())), Ok(true), "document {nth}");
    }
    assert_eq!(pool.check(), Ok(()));
    lab.kill(pool);
    assert_eq!(lab.imported(&[0, 1]).documents("export/").len(), 1000);
}

#[test]
fn a_pool_without_a_quorum_refuses_them() {
    let lab = Lab::small(3, 3);
    let pool = lab.created(&lab.all());
    set(&lab, &pool, "k", Some(b"kept")).expect("a quorum");
    lab.disks[1].disappear(holdfast_device::sim::Disappearance::Cable);
    lab.disks[2].disappear(holdfast_device::sim::Disappearance::Cable);
    let refused = set(&lab, &pool, "k", Some(b"lost")).expect_err("one disk of three");
    assert!(matches!(refused.kind, PoolErrorKind::NoQuorum | PoolErrorKind::ReadOnly), "{refused}");
    assert_eq!(pool.document("k").as_deref(), Some(&b"kept"[..]));
}
