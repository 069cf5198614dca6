//! A daemon goes on with what an earlier life has left, session by session.

use std::rc::Rc;

use parkd::core::error::ErrorCode;
use parkd::engine::{Prepared, recovery};

use super::daemon::Daemon;
use super::seat::{Seat, View};
use super::tally::Count;
use super::world::World;

impl Daemon {
    /// Recovers a session.
    pub fn recover(&mut self, world: &Rc<World>, seat: &Rc<Seat>) {
        let slot = seat.slot;
        world.say(|| format!(" session {slot} is recovered"));
        let mut table = seat.table(world);
        match recovery::begin(table.as_mut()) {
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error.code, ErrorCode::Quarantined, "{error}");
                let deaths = seat.deaths.get();
                assert!(deaths >= recovery::DEATHS_MAX, "quarantined after {deaths} deaths");
                world.tally.add(Count::Quarantined);
                drop(table);
                return world.remove(slot);
            }
        }
        world.recovering.set(Some(slot));
        let view = View::new(seat, world);
        let prepared = Prepared::recover(slot, view, table, &world.config);
        let prepared = prepared.unwrap_or_else(|error| panic!("a table is refused: {error}"));
        let mut prepared = prepared.numbered(seat.serial);
        if seat.almost_over.take() {
            // It died as it forgot the deaths before, and may or may not have done so.
            seat.deaths.set(prepared.header().recoveries);
        }
        let deaths = seat.deaths.get();
        assert!(deaths < recovery::DEATHS_MAX, "not quarantined after {deaths} deaths");
        let devices = prepared.devices();
        seat.serve(world);
        self.seat(world, seat, prepared);
        seat.book.borrow_mut().resumed();
        if seat.honest {
            seat.client.borrow_mut().resumed(world, seat);
        }
        for device in (0..u64::BITS).filter(|device| devices & (1 << device) != 0) {
            self.hear(seat, device);
        }
        self.engine.resume(slot, self.now);
        self.turn(world);
        seat.almost_over.set(true);
        self.engine.recovered(slot, self.now);
        world.recovering.set(None);
        seat.almost_over.set(false);
        seat.deaths.set(0);
    }
}
