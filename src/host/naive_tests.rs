use std::sync::atomic::Ordering;

use super::*;
use crate::host::fill::tests::{collect, patience, shared_word, suite};

fn make() -> NaiveHost {
    NaiveHost::probe().unwrap();
    NaiveHost::new().unwrap()
}

#[test]
fn does_what_every_host_does() {
    suite(make);
}

#[test]
fn a_word_needs_no_wake() {
    let mut host = make();
    let word = shared_word();
    host.watch_word(Token(1), word.into(), 0).unwrap();
    let store = std::thread::spawn(move || word.store(1, Ordering::SeqCst));
    assert_eq!(collect(&mut host, 1), [HostEvent::Bell(Token(1))]);
    store.join().unwrap();
}

#[test]
fn idle_without_a_bound_naps() {
    let mut host = make();
    host.idle(None).unwrap();
    host.idle(Some(MonoNs::MAX)).unwrap();
}

#[test]
fn a_hot_turn_looks_at_words_too() {
    let mut host = make();
    let (word, mut batch) = (shared_word(), EventBatch::new());
    host.watch_word(Token(1), word.into(), 0).unwrap();
    word.store(1, Ordering::SeqCst);
    let until = patience();
    while host.reap(&mut batch).unwrap() == 0 {
        assert!(clock::now() < until);
    }
    assert_eq!(batch.as_slice(), [HostEvent::Bell(Token(1))]);
}

#[test]
fn a_word_that_is_not_mapped_is_a_lost_bell() {
    let mut host = make();
    host.watch_word(Token(1), FutexAddr::new(8), 0).unwrap();
    assert_eq!(collect(&mut host, 1), [HostEvent::BellLost(Token(1), -libc::EFAULT)]);
}
