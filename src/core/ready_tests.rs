use core::task::Waker;

use super::*;

#[test]
fn a_new_task_counts_as_fired_without_a_bit() {
    let mut set = ReadySet::default();
    assert_eq!(set.take(), None);
    let signal = set.signal(3);
    assert!(signal.take_fired() && !signal.take_fired());
    assert!(!set.any());
    assert_eq!(set.take(), None);
}

#[test]
fn many_wakes_are_one_and_each_place_has_its_turn() {
    let mut set = ReadySet::default();
    let places = [0, 63, 64, 130];
    let wakers = places.map(|place| {
        let signal = set.signal(place);
        signal.take_fired();
        (signal.clone(), Waker::from(signal))
    });
    for (_, waker) in &wakers {
        waker.wake_by_ref();
        waker.wake_by_ref();
    }
    assert!(set.any());
    let mut turns = alloc::vec::Vec::new();
    for _ in 0..6 {
        let place = set.take().unwrap();
        let (signal, waker) = &wakers[places.iter().position(|&known| known == place).unwrap()];
        assert!(signal.take_fired() && !signal.take_fired());
        waker.wake_by_ref();
        turns.push(place);
    }
    assert_eq!(turns, [0, 63, 64, 130, 0, 63], "a task that wakes itself starves no other");
}

#[test]
fn a_waker_of_an_earlier_task_does_not_wake_its_successor() {
    let mut set = ReadySet::default();
    let gone = Waker::from(set.signal(5));
    let heir = set.signal(5);
    heir.take_fired();
    gone.wake();
    assert_eq!(set.take(), None, "its own signal was still fired: nothing new to say");
    let gone = set.signal(5);
    gone.take_fired();
    Waker::from(gone).wake();
    assert_eq!(set.take(), Some(5));
    assert!(!heir.take_fired());
}
