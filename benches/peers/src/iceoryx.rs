//! iceoryx2's event: a notifier in the producer, a listener for each waiter.

use std::time::Duration;

use iceoryx2::prelude::*;

use crate::harness::wake::Peer;
use crate::harness::{Doing, Result};

/// See the file's head.
pub struct Iceoryx;

impl Peer for Iceoryx {
    fn listen(&self, name: &str) -> Result<Box<dyn FnMut(Duration) -> Result<()>>> {
        let (node, event) = event(name)?;
        let listener = event.listener_builder().create().doing("listener")?;
        Ok(Box::new(move |patience| {
            // It lives as long as its ports.
            let _ = &node;
            listener.timed_wait(|_| (), patience).map(drop).doing("timed_wait")
        }))
    }

    fn notify(&self, name: &str) -> Result<Box<dyn FnMut() -> Result<()>>> {
        let (node, event) = event(name)?;
        let notifier = event.notifier_builder().create().doing("notifier")?;
        Ok(Box::new(move || {
            let _ = &node;
            notifier.notify().map(drop).doing("notify")
        }))
    }
}

type Event = iceoryx2::service::port_factory::event::PortFactory<ipc::Service>;

fn event(name: &str) -> Result<(Node<ipc::Service>, Event)> {
    // What it would tell of nodes that died is not this program's.
    set_log_level(LogLevel::Error);
    let node = NodeBuilder::new().create::<ipc::Service>().doing("node")?;
    let name: ServiceName = name.try_into().doing("name")?;
    let event = node.service_builder(&name).event().open_or_create().doing("event")?;
    Ok((node, event))
}
