//! The messages and data that this rank has in flight.

use bytes::Bytes;

use crate::{
    Rank,
    launch::Launch,
    window::PendingSend,
    wire::{CONTROL, Message, Tag},
};

/// Sends that have begun and not ended.
pub struct Sends<'a> {
    launch: &'a Launch,
    pending: Vec<PendingSend>,
}

impl<'a> Sends<'a> {
    pub fn new(launch: &'a Launch) -> Self {
        Self { launch, pending: Vec::new() }
    }

    /// Returns whether nothing is in flight.
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Begins to send bytes, which live until they are sent.
    pub fn data(&mut self, to: Rank, tag: Tag, bytes: Bytes) {
        self.pending.push(PendingSend::begin(&self.launch.all, to, tag, bytes));
    }

    /// Begins to send an answer.
    pub fn message(&mut self, to: Rank, tag: Tag, message: &Message) {
        self.data(to, tag, message.encode().into());
    }

    /// Begins to send a message to a noise rank.
    pub fn control(&mut self, to: Rank, message: &Message) {
        self.message(to, CONTROL, message);
    }

    /// Begins to send a message from the first noise rank to all others.
    pub fn broadcast(&mut self, message: &Message) {
        let launch = self.launch;
        for (rank, _) in launch.shards.iter().filter(|(rank, _)| *rank != launch.root) {
            self.control(*rank, message);
        }
    }

    /// Moves all sends forward and drops those that have ended. Returns whether any has.
    pub fn progress(&mut self) -> bool {
        let before = self.pending.len();
        self.pending.retain_mut(|send| !send.is_done());
        self.pending.len() < before
    }
}
