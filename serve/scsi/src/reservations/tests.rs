//! Any commands in any order leave reservations sound, and what is kept of them is what they are.

use proptest::prelude::*;

use super::kept::{decode, encode};
use super::kind::{Kind, Part};
use super::state::{Action, State};
use crate::ports::{InitiatorPort, NexusId, TargetPort};

fn nexus(number: u8) -> NexusId {
    NexusId {
        initiator: InitiatorPort { name: format!("iqn.2026-01.test:{}", number / 2), isid: [number; 6] },
        target: TargetPort { device: "iqn.2026-01.test:a".into(), relative_id: u16::from(number % 2) + 1 },
    }
}

fn action() -> impl Strategy<Value = Action> {
    let kind = prop::sample::select(&Kind::ALL[..]);
    let key = 0..3_u64;
    let nexuses = || prop::collection::vec((0..4_u8).prop_map(nexus), 0..3);
    let registers = (any::<bool>(), key.clone(), any::<bool>(), nexuses(), nexuses());
    prop_oneof![
        3 => registers.prop_map(|(ignore, new_key, aptpl, ports, named)| {
            Action::Register { ignore, new_key, aptpl, ports, named }
        }),
        3 => kind.clone().prop_map(Action::Reserve),
        1 => kind.clone().prop_map(Action::Release),
        1 => Just(Action::Clear),
        3 => (kind, key.clone(), any::<bool>()).prop_map(|(kind, victim, abort)| Action::Preempt { kind, victim, abort }),
        1 => (key, any::<bool>(), any::<bool>(), 0..4_u8).prop_map(|(new_key, unregister, aptpl, to)| {
            Action::Move { new_key, unregister, aptpl, to: nexus(to) }
        }),
    ]
}

proptest! {
    #[test]
    fn every_state_is_sound_and_kept_as_it_is(
        commands in prop::collection::vec((0..4_u8, 0..3_u64, action()), 1..60),
    ) {
        let mut state = State::default();
        for (who, key, action) in commands {
            let before = state.clone();
            let known = state.key_of(&nexus(who));
            match state.clone().apply(&nexus(who), key, &action) {
                Err(_) => {
                    let _ = state.apply(&nexus(who), key, &action);
                    prop_assert_eq!(&state, &before, "what fails changes nothing");
                }
                Ok(effects) => {
                    state.apply(&nexus(who), key, &action).unwrap();
                    let free = matches!(action, Action::Register { .. });
                    prop_assert!(free || known == Some(key), "only registrants change anything");
                    prop_assert!(!effects.abort.contains(&nexus(who)));
                    prop_assert!(effects.tell.iter().all(|(told, _)| *told != nexus(who)));
                }
            }
            prop_assert!(state.registrants.iter().all(|one| one.key != 0));
            let holders = (0..4).filter(|number| state.part_of(&nexus(*number)) == Part::Holder).count();
            let all = state.held.as_ref().is_some_and(|held| held.kind.is_all_registrants());
            let expected = if all { state.registrants.len() } else { usize::from(state.held.is_some()) };
            prop_assert_eq!(holders, expected);
            let kept = State { generation: 0, aptpl: true, ..state.clone() };
            prop_assert_eq!(decode(&encode(&state)).unwrap(), kept);
        }
    }

    #[test]
    fn no_bytes_make_a_state_that_is_not_sound(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut with_sum = bytes.clone();
        with_sum.extend(holdfast_model::wire::crc32c(&bytes).to_le_bytes());
        for bytes in [&bytes, &with_sum] {
            if let Ok(state) = decode(bytes) {
                prop_assert_eq!(decode(&encode(&state)).unwrap(), state);
            }
        }
    }
}
