//! The coordinator of this process, as long as it leads.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use ledger::etcd::LeaderLease;
use node::telemetry::live_page::Text;

use crate::coordinator::Coordinator;

/// The coordinator of this process while it leads.
#[derive(Clone, Default)]
pub struct Current(Arc<Mutex<Option<Leading>>>);

#[derive(Clone)]
struct Leading {
    coordinator: Weak<Coordinator>,
    seat: Arc<LeaderLease>,
}

impl Current {
    /// Notes the coordinator that leads under this lease.
    pub fn set(&self, coordinator: &Arc<Coordinator>, seat: &Arc<LeaderLease>) {
        let leading = Leading { coordinator: Arc::downgrade(coordinator), seat: seat.clone() };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(leading);
    }

    /// Returns the coordinator, as long as it leads for certain.
    pub fn get(&self) -> Option<Arc<Coordinator>> {
        let leading = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        leading.filter(|leading| leading.seat.left().is_some())?.coordinator.upgrade()
    }

    /// Returns a source of text from the coordinator while it leads, and of another text otherwise.
    pub fn text(&self, otherwise: &'static str, text: fn(&Coordinator) -> String) -> Text {
        let current = self.clone();
        Arc::new(move || current.get().map_or_else(|| otherwise.to_owned(), |coordinator| text(&coordinator)))
    }
}
