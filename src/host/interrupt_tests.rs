use super::*;
use crate::host::fill::tests::{patience, shared_word};
use crate::host::futex::{self, WaitOutcome};

#[test]
fn a_sleeping_thread_comes_back_interrupted() {
    let interrupt = Interrupt::install().unwrap();
    let (tx, rx) = std::sync::mpsc::channel();
    let (done_tx, done) = std::sync::mpsc::channel();
    let sleeper = std::thread::spawn(move || {
        tx.send(Tid::current()).unwrap();
        let outcome = futex::wait(shared_word().into(), 0, Some(patience())).unwrap();
        done_tx.send(()).unwrap();
        outcome
    });
    let tid = rx.recv().unwrap();
    while done.try_recv().is_err() {
        interrupt.send(tid).unwrap();
        std::thread::yield_now();
    }
    assert_eq!(sleeper.join().unwrap(), WaitOutcome::Interrupted);
}

#[test]
fn a_thread_that_is_not_there_is_an_error() {
    let interrupt = Interrupt::install().unwrap();
    let error = interrupt.send(Tid(libc::pid_t::MAX)).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ESRCH));
}
