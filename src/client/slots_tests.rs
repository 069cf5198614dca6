use proptest::prelude::*;

use super::*;
use crate::core::time::MonoNs;

fn ticket() -> SubmitEntry {
    SubmitEntry::default()
}

fn done(seen: u64) -> Completion {
    Completion::landed(seen, MonoNs(1))
}

#[test]
fn a_ticket_gets_its_result_once_and_a_late_one_is_a_stray() {
    let mut slots = Slots::new(64);
    let id = slots.open(None, &ticket()).unwrap();
    assert!(slots.outstanding(id));
    assert_eq!(slots.take(id), None);
    assert!(matches!(slots.deliver(id.user_data(), done(5)), Delivered::Ticket(None)));
    assert!(matches!(slots.deliver(id.user_data(), done(6)), Delivered::Stray));
    assert_eq!(slots.take(id), Some(done(5)));
    assert_eq!(slots.take(id), None);
    let again = slots.open(None, &ticket()).unwrap();
    assert_ne!(again, id, "the slot in its next life");
    assert!(matches!(slots.deliver(id.user_data(), done(7)), Delivered::Stray));
    assert!(!slots.ended(again));
    assert!(matches!(slots.deliver(u64::MAX, done(7)), Delivered::Stray));
}

#[test]
fn an_abandoned_slot_is_held_until_its_result_came() {
    let mut slots = Slots::new(64);
    let ids: Vec<_> = (0..64).map(|_| slots.open(None, &ticket()).unwrap()).collect();
    assert_eq!(slots.room(), 0);
    assert_eq!(slots.open(None, &ticket()), None);
    assert!(slots.abandon(ids[3]));
    assert!(!slots.abandon(ids[3]), "only once");
    assert_eq!(slots.open(None, &ticket()), None);
    assert!(matches!(slots.deliver(ids[3].user_data(), done(1)), Delivered::Dropped));
    assert_eq!(slots.room(), 1);
    slots.deliver(ids[4].user_data(), done(1));
    assert_eq!(slots.room(), 2, "what its owner keeps holds nothing");
    assert!(!slots.abandon(ids[4]), "its result was here");
    assert_eq!(slots.room(), 2);
    slots.revoke(ids[5]);
    assert_eq!(slots.room(), 3);
}

#[test]
fn tagged_results_queue_in_the_order_in_which_they_came() {
    let mut slots = Slots::new(64);
    let ids: Vec<_> = (0..5).map(|tag| slots.open(Some(tag), &ticket()).unwrap()).collect();
    for tag in [3, 0, 4] {
        assert!(matches!(slots.deliver(ids[tag].user_data(), done(0)), Delivered::Tagged));
    }
    assert_eq!(slots.take(ids[3]), None, "a tagged result is not taken by its name");
    let mut next = || slots.take_tagged().map(|(tag, _)| tag);
    assert_eq!([next(), next(), next(), next()], [Some(3), Some(0), Some(4), None]);
    assert_eq!(slots.tagged(), 2);
    slots.deliver(ids[1].user_data(), done(0));
    slots.revoke(ids[2]);
    assert_eq!(slots.take_tagged().map(|(tag, _)| tag), Some(1));
    assert_eq!((slots.tagged(), slots.room()), (0, 64));
}

#[derive(Clone, Debug)]
enum Step {
    Open,
    OpenTagged,
    Deliver(usize),
    Take(usize),
    TakeTagged,
    Abandon(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let any = 0usize..100;
    prop_oneof![
        Just(Step::Open),
        Just(Step::OpenTagged),
        any.clone().prop_map(Step::Deliver),
        any.clone().prop_map(Step::Take),
        Just(Step::TakeTagged),
        any.prop_map(Step::Abandon),
    ]
}

proptest! {
    /// Whatever is done in whatever order: every ticket delivered is taken at most once, each slot
    /// is held by one ticket at a time, and none leaks.
    #[test]
    fn no_slot_leaks_and_no_result_doubles(steps in proptest::collection::vec(step(), 1..400)) {
        let mut slots = Slots::new(8);
        let mut issued = Vec::new();
        let mut held = 0u32;
        let mut taken = std::collections::HashSet::new();
        let mut delivered = 0;
        let pick = |issued: &Vec<SlotId>, at: usize| issued.get(at % issued.len().max(1)).copied();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Open | Step::OpenTagged => {
                    let tag = matches!(step, Step::OpenTagged).then_some(number as u64);
                    let id = slots.open(tag, &ticket());
                    prop_assert_eq!(id.is_some(), held < 8);
                    held += u32::from(id.is_some());
                    issued.extend(id);
                }
                Step::Deliver(at) => if let Some(id) = pick(&issued, at) {
                    match slots.deliver(id.user_data(), done(id.user_data())) {
                        Delivered::Stray => {}
                        Delivered::Dropped => held -= 1,
                        Delivered::Ticket(_) => {
                            held -= 1;
                            delivered += 1;
                        }
                        Delivered::Tagged => delivered += 1,
                    }
                },
                Step::Take(at) => if let Some(id) = pick(&issued, at)
                    && let Some(completion) = slots.take(id)
                {
                    prop_assert_eq!(completion.seen, id.user_data());
                    prop_assert!(taken.insert(completion.seen));
                },
                Step::TakeTagged => if let Some((_, completion)) = slots.take_tagged() {
                    prop_assert!(taken.insert(completion.seen));
                    held -= 1;
                },
                Step::Abandon(at) => if let Some(id) = pick(&issued, at) {
                    let had_ended = slots.ended(id);
                    let to_come = slots.abandon(id);
                    prop_assert!(!(had_ended && to_come));
                    delivered -= usize::from(had_ended);
                },
            }
            prop_assert_eq!(slots.room(), 8 - held);
        }
        prop_assert!(taken.len() <= delivered);
    }
}
