//! The end of a seed: nothing goes wrong any more, and nothing may be left.

use std::rc::Rc;

use super::seat::USED_LANES;
use super::world::World;

impl World {
    /// No more faults: every ticket has to get its result, and then nothing may be left.
    pub fn settle(self: &Rc<World>) {
        self.say(|| "settling".to_owned());
        self.settling.set(true);
        self.fuse.set(0);
        // Whatever is on its way arrives.
        let now = self.now.get();
        self.wakes.borrow_mut().iter_mut().for_each(|wake| wake.at = wake.at.min(now));
        if self.daemon.borrow().is_none() {
            self.start();
        }
        self.each(|world, seat| {
            let mut client = seat.client.borrow_mut();
            for lane in 0..USED_LANES {
                if world.rng.one_in(2) {
                    client.devices.finish(world, seat, lane);
                }
            }
        });
        self.work(60);
        if self.rng.one_in(4) {
            self.live(|| {
                let mut daemon = self.daemon.borrow_mut().take()?;
                daemon.shut_down(self);
                Some(daemon)
            });
        } else {
            self.each(|world, seat| {
                let mut client = seat.client.borrow_mut();
                client.dead = false;
                client.give_up(world, seat);
            });
        }
        self.work(60);
        self.each(|_, seat| {
            let book = seat.book.borrow();
            assert!(book.open.is_empty(), "tickets without a result: {:?}", book.open);
            let unread = book.tickets.iter().filter(|ticket| ticket.is_lost()).count();
            assert_eq!(unread, 0, "results that the client has not got");
        });
        self.seats.borrow().iter().flatten().for_each(|seat| seat.left.set(true));
        self.pass();
        self.check();
        assert!(self.seats.borrow().iter().all(Option::is_none), "sessions are kept");
    }

    fn work(self: &Rc<World>, rounds: u32) {
        for _ in 0..rounds {
            self.moments.set(0);
            self.each(|world, seat| {
                let mut client = seat.client.borrow_mut();
                client.dead = false;
                for _ in 0..4 {
                    client.write(world, seat);
                    client.read(world, seat);
                }
            });
            self.pass();
            self.check();
        }
    }
}
