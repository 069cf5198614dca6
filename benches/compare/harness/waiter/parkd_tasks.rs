//! Tasks of a tokio runtime that await tickets, all on one thread.

use std::time::Duration;

use parkd::client::Lane;
use parkd::client::tokio::AsyncSession;
use parkd::core::time::MonoNs;
use parkd::host::clock;
use tokio::runtime::{Builder, Runtime};
use tokio::task::LocalSet;

use super::super::{Doing, Result};
use super::parkd_threads::found;
use super::place::Place;
use super::watch::Watch;
use super::{Serve, lost};

/// See the file's head.
pub struct Tasks {
    runtime: Runtime,
    session: AsyncSession,
    lanes: Vec<Lane>,
}

impl Tasks {
    /// For all waiters of a place.
    pub fn new(place: &Place) -> Result<Tasks> {
        let (session, lanes) = place.session()?.clone();
        let runtime = Builder::new_current_thread().enable_all().build().doing("runtime")?;
        let entered = runtime.enter();
        let session = AsyncSession::new(session).doing("session")?;
        drop(entered);
        Ok(Tasks { runtime, session, lanes })
    }
}

async fn serve(mut watch: Watch, lane: Lane, until: MonoNs) -> Result<Watch> {
    let point = u64::from(lane.index()) + 1;
    while let Some(number) = watch.next() {
        let ticket = lane.ticket(number).point(point).submit().doing("submit")?;
        watch.done(found(&ticket.await.doing("ticket")?)?)?;
        if clock::now() >= until {
            return Err(lost(number));
        }
    }
    Ok(watch)
}

impl Serve for Tasks {
    fn serve(&mut self, watches: Vec<Watch>, until: MonoNs) -> Result<Vec<Watch>> {
        let tasks = LocalSet::new();
        let watches: Vec<_> = watches
            .into_iter()
            .map(|watch| {
                let lane = self.lanes[watch.place as usize].clone();
                tasks.spawn_local(serve(watch, lane, until))
            })
            .collect();
        let patience = Duration::from_nanos(until.since(clock::now()).0);
        let all = self.runtime.block_on(async { tokio::time::timeout(patience, tasks).await });
        all.map_err(|_| lost(0))?;
        // The session's fds are looked at until here.
        let _ = self.session.number();
        self.runtime.block_on(async {
            let mut ended = Vec::new();
            for task in watches {
                ended.push(task.await.doing("task")??);
            }
            Ok::<_, String>(ended)
        })
    }
}
