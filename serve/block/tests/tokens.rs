//! What becomes of tokens, and what their holders hear.

#[path = "support/memory.rs"]
#[allow(dead_code)]
mod memory;
#[path = "support/sessions.rs"]
#[allow(dead_code)]
mod sessions;

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use holdfast_block::{Balancer, Change, ObjectService, TOKEN_BYTES, Token, TokenEnd, TokenLimits, TokenSource, Tokens};
use holdfast_device::Clock;
use memory::Memory;
use sessions::{change, on_reactor, service, session, write};

/// A clock that the test sets.
#[derive(Default)]
struct Hands(AtomicU64);

impl Clock for Hands {
    fn now(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::SeqCst))
    }

    fn sleep(&self, _: Duration) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(std::future::pending())
    }
}

fn tokens(limits: TokenLimits) -> (Arc<Hands>, Tokens) {
    let hands = Arc::new(Hands::default());
    (hands.clone(), Tokens::new(limits, hands))
}

async fn issue(tokens: &Tokens, owner: &str, object: &Arc<ObjectService>, ranges: &[(u64, u64)]) -> Arc<Token> {
    let ranges: Vec<_> = ranges.iter().map(|&(from, to)| from..to).collect();
    let mut watched = Vec::new();
    for range in &ranges {
        watched.push(object.watch(range.clone()).await);
    }
    let timeout = Duration::from_secs(30);
    let source = TokenSource { owner: owner.into(), object: object.clone(), ranges, watched, timeout };
    tokens.issue(source, |form| form[0] = 0xab).unwrap()
}

fn found(tokens: &Tokens, token: &Token) -> Result<(), TokenEnd> {
    tokens.find(token.data()).map(|_| ())
}

#[test]
fn a_token_is_found_as_long_as_its_data_is_what_it_was() {
    on_reactor(|| async {
        let (_, tokens) = tokens(TokenLimits::default());
        let object = service(Memory::new(1 << 20));
        let writer = session(&object);
        let ends: [(&str, u64, Option<Change>); 3] = [
            ("a write", 8192, None),
            ("a discard", 12288, Some(Change::Discard)),
            ("zeroes of a part", 9000, Some(Change::Zeroes { keep_room: true })),
        ];
        for (what, at, kind) in ends {
            let token = issue(&tokens, "a", &object, &[(0, 4096), (8192, 16384)]).await;
            assert_eq!(token.bytes(), 12288);
            assert_eq!(token.data()[0], 0xab);
            write(&writer, 4096, &[1; 4096]).await.unwrap();
            write(&writer, 16384, &[1; 4096]).await.unwrap();
            assert_eq!(found(&tokens, &token), Ok(()), "a write beside it changes nothing");
            match kind {
                Some(kind) => change(&writer, at, 4096, kind).await.unwrap(),
                None => write(&writer, at, &[2]).await.unwrap(),
            }
            assert!(!token.holds());
            assert_eq!(found(&tokens, &token), Err(TokenEnd::Cancelled), "{what}");
        }
        assert!(tokens.is_empty());
    });
}

#[test]
fn forged_ones_are_unknown_whatever_they_are_like() {
    on_reactor(|| async {
        let (_, tokens) = tokens(TokenLimits::default());
        let object = service(Memory::new(1 << 20));
        let token = issue(&tokens, "a", &object, &[(0, 4096)]).await;
        for at in [0, 7, 8, 15, 100, 255, 256, 511] {
            let mut forged = *token.data();
            forged[at] ^= 1;
            assert_eq!(tokens.find(&forged).err(), Some(TokenEnd::Unknown), "byte {at}");
        }
        assert_eq!(tokens.find(&[0; TOKEN_BYTES]).err(), Some(TokenEnd::Unknown));
        let other = issue(&tokens, "a", &object, &[(0, 4096)]).await;
        assert_ne!(other.data()[8..16], token.data()[8..16]);
        assert_ne!(other.data()[256..], token.data()[256..]);
        // What has ended is told from what was forged by its secret.
        tokens.delete(&token);
        assert_eq!(found(&tokens, &token), Err(TokenEnd::Deleted));
        let mut forged = *token.data();
        forged[260] ^= 1;
        assert_eq!(tokens.find(&forged).err(), Some(TokenEnd::Unknown));
        assert_eq!(
            found(&Tokens::new(TokenLimits::default(), Arc::new(Hands::default())), &other),
            Err(TokenEnd::Unknown)
        );
    });
}

#[test]
fn whoever_is_not_used_expires_and_use_begins_its_time_anew() {
    on_reactor(|| async {
        let (hands, tokens) = tokens(TokenLimits::default());
        let object = service(Memory::new(1 << 20));
        let (used, idle) =
            (issue(&tokens, "a", &object, &[(0, 1)]).await, issue(&tokens, "a", &object, &[(0, 1)]).await);
        hands.0.store(25, Ordering::SeqCst);
        assert_eq!(found(&tokens, &used), Ok(()));
        hands.0.store(31, Ordering::SeqCst);
        assert_eq!(tokens.of_object(object.id()).len(), 1);
        assert_eq!(found(&tokens, &idle), Err(TokenEnd::Expired));
        tokens.used(&used);
        hands.0.store(61, Ordering::SeqCst);
        assert_eq!(found(&tokens, &used), Ok(()));
        hands.0.store(92, Ordering::SeqCst);
        assert_eq!(found(&tokens, &used), Err(TokenEnd::Expired));
    });
}

#[test]
fn an_object_that_goes_or_shrinks_takes_its_tokens_along() {
    on_reactor(|| async {
        let (_, tokens) = tokens(TokenLimits::default());
        let object = service(Memory::new(1 << 20));
        let token = issue(&tokens, "a", &object, &[(0, 4096)]).await;
        object.mark_changed(0..1 << 20);
        assert_eq!(found(&tokens, &token), Err(TokenEnd::Cancelled));
        let token = issue(&tokens, "a", &object, &[(0, 4096)]).await;
        drop(object);
        assert_eq!(found(&tokens, &token), Err(TokenEnd::Revoked));

        let memory = Arc::new(Memory::new(1 << 20));
        let balancer = Balancer::new(1);
        let object = Arc::new(ObjectService::new(memory.clone(), balancer, holdfast_device::reactor::clock()));
        let low = issue(&tokens, "a", &object, &[(0, 4096)]).await;
        let high = issue(&tokens, "a", &object, &[(0, 1 << 20)]).await;
        memory.grow(1 << 19);
        assert_eq!(found(&tokens, &high), Err(TokenEnd::Cancelled));
        assert_eq!(found(&tokens, &low), Ok(()));
    });
}

#[test]
fn the_oldest_make_room_and_nobody_takes_the_room_of_others() {
    on_reactor(|| async {
        let limits = TokenLimits { tokens: 5, of_owner: 3, ranges: 12, ended: 3 };
        let (hands, tokens) = tokens(limits);
        let object = service(Memory::new(1 << 20));
        let now = Mutex::new(0);
        let next = async |owner: &str, ranges: usize| {
            *now.lock().unwrap() += 1;
            hands.0.store(*now.lock().unwrap(), Ordering::SeqCst);
            issue(&tokens, owner, &object, &vec![(0, 4096); ranges]).await
        };
        let first = next("a", 1).await;
        let mut greedy = Vec::new();
        for _ in 0..5 {
            greedy.push(next("b", 1).await);
        }
        assert_eq!(found(&tokens, &first), Ok(()), "b has its own limit");
        assert_eq!(found(&tokens, &greedy[1]), Err(TokenEnd::Cancelled));
        assert_eq!(found(&tokens, &greedy[2]), Ok(()));
        next("c", 1).await;
        next("d", 1).await;
        assert_eq!(tokens.len(), 5);
        next("e", 10).await;
        assert_eq!(tokens.len(), 3, "ranges are counted as well");
        assert_eq!(found(&tokens, &greedy[0]), Err(TokenEnd::Unknown), "only the last that ended are remembered");
    });
}
