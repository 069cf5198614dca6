//! A *completion port*: what one piece of a device's work can be asked, whoever the device is.
//!
//! A port that is a stream or an event asks its driver. A port that is a word and nothing else is
//! [`WordPort`]. What always holds for a port: no call says done before the work is done; a
//! bounded call returns at its bound; dropping a call's future leaves nothing of it registered.

use core::future::Future;

use super::error::Result;
use super::line::MemoryDescriptor;
use super::reactor::Reactor;
use super::time::{Clock, Idle, MonoNs};

/// One piece of work that is waited for. Any error ends the wait, with that error.
pub trait CompletionPort {
    /// Asks once whether the work is done.
    fn query(&mut self) -> impl Future<Output = Result<bool>>;

    /// Waits in the way that costs no CPU. True: done; false: `until` has come, or a bounded piece
    /// of the wait ended.
    fn block(&mut self, until: Option<MonoNs>) -> impl Future<Output = Result<bool>>;

    /// Has the completion word written behind the work. Called at most once in a wait.
    fn arm(&mut self) -> impl Future<Output = Result<()>>;

    /// Parks on the completion word. True: the word has reached its target, which does not yet say
    /// done; false: `until` has come, or the park ended early.
    fn park(&mut self, until: MonoNs) -> impl Future<Output = Result<bool>>;

    /// Asks again and again. True: done; false: `until` has come, or a bounded piece of it ended.
    fn poll(&mut self, until: Option<MonoNs>) -> impl Future<Output = Result<bool>>;

    /// Takes back what [`arm`](Self::arm) left registered. Called once after an `arm` that was
    /// begun, however the wait ends.
    fn disarm(&mut self);
}

/// The port of a completion word that a device stores into by itself: the word is all there is to
/// ask, and every wait on it is a watch of the reactor.
#[derive(Debug)]
pub struct WordPort<'r, 'l, C, I> {
    reactor: &'r Reactor<'l, C, I>,
    descriptor: MemoryDescriptor<'l>,
}

impl<'r, 'l, C: Clock, I: Idle> WordPort<'r, 'l, C, I> {
    /// A port for this word and target.
    pub fn new(reactor: &'r Reactor<'l, C, I>, descriptor: MemoryDescriptor<'l>) -> Self {
        WordPort { reactor, descriptor }
    }
}

impl<C: Clock, I: Idle> CompletionPort for WordPort<'_, '_, C, I> {
    async fn query(&mut self) -> Result<bool> {
        Ok(self.descriptor.is_reached())
    }

    async fn block(&mut self, until: Option<MonoNs>) -> Result<bool> {
        Ok(self.reactor.watch(self.descriptor, until).await)
    }

    async fn arm(&mut self) -> Result<()> {
        Ok(())
    }

    async fn park(&mut self, until: MonoNs) -> Result<bool> {
        Ok(self.reactor.watch(self.descriptor, Some(until)).await)
    }

    async fn poll(&mut self, until: Option<MonoNs>) -> Result<bool> {
        Ok(self.reactor.watch(self.descriptor, until).await)
    }

    fn disarm(&mut self) {}
}
