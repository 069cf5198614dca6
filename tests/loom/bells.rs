//! Bells and parking: no ring is lost, and who hears one finds what it was about.

use std::sync::Arc;

use loom::thread;
use parkd_loom::check;
use parkd_loom::futex::Futex;
use parkd_loom::memory::Memory;
use parkd_loom::proto::entry::{ResultEntry, phase_of};
use parkd_loom::proto::layout::lanes;
use parkd_loom::shm::bells::{Bell, BellsView, Ring};
use parkd_loom::shm::lanes::{LanesView, LanesWriter};
use parkd_loom::shm::result_ring::{ResultConsumer, ResultProducer};
use parkd_loom::shm::status::StatusPage;
use parkd_loom::shm::submit_ring::{SubmitConsumer, SubmitProducer};
use parkd_loom::shm::sync::{Ordering, fence};

#[test]
fn the_daemon_sees_the_ring_or_the_producer_sees_it_parked() {
    check(4, || {
        let (lanes, status) = (Memory::lanes(), Memory::status());
        let writer = LanesWriter::new(lanes.clone(), 64).unwrap();
        let bell = Bell::new(lanes.clone(), status.clone(), 1).unwrap();
        let producer = thread::spawn(move || {
            writer.store(0, 9);
            bell.ring()
        });
        let page = StatusPage::new(status).unwrap();
        let bells = BellsView::new(lanes.clone()).unwrap();
        let view = LanesView::new(lanes, 64).unwrap();
        page.park();
        let heard = bells.moved(1, 0);
        if heard.is_some() {
            assert_eq!(view.peek(0), 9, "the lane was stored before the ring");
        }
        let left = producer.join().unwrap();
        assert!(heard.is_some() || left == Ring::MustWake);
    });
}

#[test]
fn a_daemon_that_sleeps_on_its_bell_hears_every_producer() {
    check(3, || {
        let (lanes, status) = (Memory::lanes(), Memory::status());
        let futex = Arc::new(Futex::default());
        let producers: Vec<_> = (0..2)
            .map(|lane| {
                let writer = LanesWriter::new(lanes.clone(), 64).unwrap();
                let bell = Bell::new(lanes.clone(), status.clone(), 1).unwrap();
                let kernel = futex.clone();
                thread::spawn(move || {
                    writer.store(lane, 1);
                    if bell.ring() == Ring::MustWake {
                        kernel.wake();
                    }
                })
            })
            .collect();
        let page = StatusPage::new(status).unwrap();
        let bells = BellsView::new(lanes.clone()).unwrap();
        let view = LanesView::new(lanes.clone(), 64).unwrap();
        let mut seen = 0;
        while view.load(0) + view.load(1) < 2 {
            page.park();
            match bells.moved(1, seen) {
                Some(count) => seen = count,
                None => futex.wait(&lanes, lanes::bell(1), seen),
            }
            page.unpark();
        }
        producers.into_iter().for_each(|producer| producer.join().unwrap());
    });
}

#[test]
fn who_hears_the_doorbell_finds_the_submission() {
    check(3, || {
        let (lanes, status) = (Memory::lanes(), Memory::status());
        let (rings, sizes) = Memory::rings(0);
        let mut producer = SubmitProducer::new(rings.clone(), sizes).unwrap();
        let bell = Bell::new(lanes.clone(), status.clone(), 0).unwrap();
        let client = thread::spawn(move || {
            assert_eq!(producer.push(&[7; 8]), Ok(Some(0)));
            producer.publish();
            bell.ring()
        });
        let page = StatusPage::new(status).unwrap();
        let bells = BellsView::new(lanes).unwrap();
        let consumer = SubmitConsumer::new(rings, sizes).unwrap();
        page.park();
        let heard = bells.read(0) != 0;
        if heard {
            assert_eq!(consumer.pending(0), Ok(1));
            assert_eq!(consumer.entry(0), [7; 8]);
        }
        let left = client.join().unwrap();
        assert!(heard || left == Ring::MustWake);
    });
}

/// A client makes no wake for a ticket that waits behind another one, unless the other's result is
/// there; the daemon looks at the doorbell whenever it has published results.
#[test]
fn a_ticket_sent_without_a_wake_is_seen_when_the_one_ahead_ends() {
    check(4, || {
        let (lanes, status) = (Memory::lanes(), Memory::status());
        let (rings, sizes) = Memory::rings(0);
        let page = StatusPage::new(status.clone()).unwrap();
        page.park();
        let mut producer = SubmitProducer::new(rings.clone(), sizes).unwrap();
        let taken = ResultConsumer::new(rings.clone(), sizes).unwrap();
        let bell = Bell::new(lanes.clone(), status, 0).unwrap();
        let client = thread::spawn(move || {
            assert_eq!(producer.push(&[7; 8]), Ok(Some(0)));
            producer.publish();
            assert_eq!(bell.ring(), Ring::MustWake);
            taken.ready()
        });
        let results = ResultProducer::new(rings, sizes).unwrap();
        let bells = BellsView::new(lanes).unwrap();
        results.write(0, ResultEntry { phase: phase_of(0, sizes.result()), ..Default::default() });
        results.publish(1);
        fence(Ordering::SeqCst);
        let heard = bells.moved(0, 0).is_some();
        assert!(client.join().unwrap() || heard, "neither has seen the other");
    });
}
