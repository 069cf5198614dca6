use super::*;
use crate::host::futex::WaitOutcome;
use crate::proto::layout::lanes;
use crate::shm::area::Area;
use crate::shm::bells::{Bell, Ring};
use crate::shm::region::ReadWrite;
use crate::shm::status::StatusPage;

/// A daemon's page, and what it brings of it.
fn daemon(bell: Option<OwnedFd>) -> (StatusPage<Region<ReadWrite>>, Present) {
    let area = Area::status().unwrap();
    let region = area.map().unwrap();
    let present = Present { region, status: area.readonly_fd().unwrap(), bell: bell.map(Arc::new) };
    (StatusPage::new(area.map().unwrap()).unwrap(), present)
}

#[test]
fn bells_are_rung_for_the_daemon_that_is_there() {
    let memory: Region<ReadWrite> = Region::heap(lanes::bytes(64)).unwrap();
    let (old, present) = daemon(None);
    let page = Page::new(present);
    let bell = Bell::new(memory.clone(), page.clone(), 0).unwrap();
    old.unpark();
    assert_eq!(bell.ring(), Ring::Awake);
    assert_eq!(page.bell_fd().unwrap().map(drop), None);
    let events = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
    let (new, present) = daemon(Some(events.try_clone().unwrap()));
    new.park();
    new.begin(7, "next");
    page.exchange(present);
    assert_eq!(bell.ring(), Ring::MustWake);
    page.wake(bell.address());
    assert_eq!(rustix::io::read(&events, &mut [0u8; 8]), Ok(8), "by its kind of bell");
    let status = crate::shm::status::StatusReader::new(page.clone()).unwrap();
    assert_eq!((status.generation(), status.executor()), (7, "next".to_owned()));
    assert!(page.bell_fd().unwrap().is_some());
    // And back to futexes, whoever waits there.
    page.exchange(daemon(None).1);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let seen = memory.load32(lanes::bell(0));
            futex::wait(FutexAddr::new(bell.address()), seen, None).unwrap()
        });
        while !waits.is_finished() {
            page.wake(bell.address());
        }
        assert_ne!(waits.join().unwrap(), WaitOutcome::TimedOut);
    });
}
