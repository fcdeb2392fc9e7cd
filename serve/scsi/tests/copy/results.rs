//! What the copy manager tells of itself and of its tokens.

use holdfast_scsi::LogicalBlocks::{B512e, B4096};

use crate::client::*;
use crate::world::*;

#[test]
fn the_page_and_the_parameters_tell_the_limits_that_are_kept() {
    on_reactor(|| async {
        let world = World::new();
        let device = world.simple("iqn.a", &[B512e, B4096]);
        let host = Host::new(&device, "iqn.host").await;
        for (lun, block) in [(0, 512_u64), (1, 4096)] {
            let page = host.good(lun, &[0x12, 1, 0x8f, 4, 0, 0], &[]).await;
            assert_eq!(page[..2], [0, 0x8f]);
            let mut rest = &page[4..];
            assert_eq!(usize::from(u16::from_be_bytes([page[2], page[3]])), rest.len());
            let mut kinds = Vec::new();
            while !rest.is_empty() {
                let (kind, len) = (u16::from_be_bytes([rest[0], rest[1]]), u16::from_be_bytes([rest[2], rest[3]]));
                assert_eq!(len % 4, 0, "{kind:x}");
                let body = &rest[4..4 + usize::from(len)];
                match kind {
                    0x0000 => {
                        assert_eq!(body.len(), 0x20);
                        assert_eq!(body[6..8], [2, 0]);
                        assert_eq!(body[16..24], ((16_u64 << 40) / block).to_be_bytes());
                    }
                    0x0004 => assert_eq!((body.len(), &body[4..12]), (0x1c, &[0, 64, 1, 0, 0, 0, 0x40, 0][..])),
                    0x0106 => assert_eq!(body.len(), 44 + 48),
                    0x0108 => assert_eq!(body.len(), 4 + 4 * 64),
                    0x8001 => assert_eq!(body.len(), 0x20),
                    0xc001 => assert_eq!(body.len(), 0x1c),
                    _ => {}
                }
                kinds.push(kind);
                rest = &rest[4 + usize::from(len)..];
            }
            assert_eq!(kinds, [0, 1, 4, 8, 0x0c, 0x106, 0x108, 0x8001, 0xc001]);
        }
        let parameters = host.good(0, &results_cdb(3, 0, 1000), &[]).await;
        assert_eq!(parameters[8..16], [0, 64, 1, 0, 0, 0, 0x40, 0]);
        assert_eq!(host.good(0, &results_cdb(3, 0, 8), &[]).await.len(), 8);
    });
}

#[test]
fn tokens_are_listed_without_their_secrets_and_handed_over_once() {
    on_reactor(|| async {
        let world = World::new();
        let device = world.simple("iqn.a", &[B512e, B512e]);
        let host = Host::new(&device, "iqn.host").await;
        let tokens = [host.populate(0, &[(0, 8)]).await, host.populate(0, &[(8, 8)]).await];
        host.populate(1, &[(0, 8)]).await;
        assert!(host.told(0, 77).await.token.is_none(), "it was handed over");
        let all = host.good(0, &results_cdb(8, 0, 4096), &[]).await;
        assert_eq!(all[..8], [0, 0, 0, 4 + 2 * 96, 0, 0, 0, 0]);
        assert_eq!(all[8..], [&tokens[0][..96], &tokens[1][..96]].concat());
        // What a token says of itself.
        let token = &tokens[0];
        assert_eq!(token[..8], [0, 0x80, 0, 1, 0, 0, 1, 0xf8]);
        assert_eq!((token[16], &token[20..24], &token[45..48]), (0xe4, &[1, 3, 0, 16][..], &[0, 2, 0][..]));
        assert_eq!(token[48..64], 4096_u128.to_be_bytes());
        assert_eq!(token[96..104], [0, 0, 2, 0, 0, 3, 0xc0, 0]);
        assert_eq!(token[128..140], [0x53, 0xa8, 0, 8, b'i', b'q', b'n', b'.', b'a', 0, 0, 0]);
        // One that was not taken whole can be taken again.
        let list = populate_list(0, &[(0, 8)]);
        let mut cdb = vec![0x83, 0x10, 0, 0, 0, 0, 0, 0, 0, 5];
        cdb.extend((list.len() as u32).to_be_bytes());
        cdb.extend([0, 0]);
        host.good(0, &cdb, &list).await;
        assert_eq!(host.good(0, &results_cdb(7, 5, 100), &[]).await.len(), 100);
        assert!(host.told(0, 5).await.token.is_some());
    });
}
