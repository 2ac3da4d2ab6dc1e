use std::sync::Arc;

use tokio::sync::watch;

/// Holds requests back until it is released, and tells how many came and how many went through. Clones are the same gate.
#[derive(Clone, Debug)]
pub struct Gate(Arc<State>);

#[derive(Debug)]
struct State {
    released: watch::Sender<bool>,
    waiting: watch::Sender<u64>,
    landed: watch::Sender<u64>,
}

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Gate(Arc::new(State { released: watch::Sender::new(false), waiting: watch::Sender::new(0), landed: watch::Sender::new(0) }))
    }

    /// Lets everything through from now on.
    pub fn release(&self) {
        self.0.released.send_replace(true);
    }

    /// Waits until `count` requests have come to the gate.
    pub async fn reached(&self, count: u64) {
        // The sender lives as long as the gate, so waiting cannot fail.
        let _ = self.0.waiting.subscribe().wait_for(|waiting| *waiting >= count).await;
    }

    /// Waits until `count` requests have gone through and were carried out.
    pub async fn landed(&self, count: u64) {
        let _ = self.0.landed.subscribe().wait_for(|landed| *landed >= count).await;
    }

    pub(super) async fn pass(&self) {
        self.0.waiting.send_modify(|waiting| *waiting += 1);
        let _ = self.0.released.subscribe().wait_for(|released| *released).await;
    }

    pub(super) fn land(&self) {
        self.0.landed.send_modify(|landed| *landed += 1);
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}
