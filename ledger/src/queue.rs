//! Group commit: calls that come while a commit is under way share the next one.

use std::sync::{Arc, Mutex, PoisonError};

use crate::{LedgerError, Result};

/// Calls that wait, each for an outcome of its own.
pub struct Queue<Q, A> {
    waiting: Mutex<Vec<Arc<Call<Q, A>>>>,
    /// Held by whoever commits.
    turn: Mutex<()>,
}

struct Call<Q, A> {
    request: Q,
    outcome: Mutex<Option<Result<A>>>,
}

impl<Q, A> Default for Queue<Q, A> {
    fn default() -> Self {
        Self { waiting: Mutex::default(), turn: Mutex::default() }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<Q, A> Queue<Q, A> {
    /// Runs the request in a batch with all that wait; `commit` gives one outcome a request, in order, or fails for
    /// all of them. The caller whose turn it is commits for the others.
    pub fn run(&self, request: Q, commit: impl FnOnce(&[&Q]) -> Result<Vec<Result<A>>>) -> Result<A> {
        let own = Arc::new(Call { request, outcome: Mutex::default() });
        lock(&self.waiting).push(own.clone());
        let turn = lock(&self.turn);
        if let Some(outcome) = lock(&own.outcome).take() {
            return outcome;
        }
        // Whoever had the turn took all that waited then: this call came later, and is among those that wait now.
        let batch = std::mem::take(&mut *lock(&self.waiting));
        let requests: Vec<&Q> = batch.iter().map(|call| &call.request).collect();
        match commit(&requests) {
            Ok(outcomes) => {
                for (call, outcome) in batch.iter().zip(outcomes) {
                    *lock(&call.outcome) = Some(outcome);
                }
            }
            Err(error) => batch.iter().for_each(|call| *lock(&call.outcome) = Some(Err(error.clone()))),
        }
        drop(turn);
        let outcome = lock(&own.outcome).take();
        outcome.unwrap_or_else(|| {
            Err(LedgerError::invalid("batch", "without an outcome", "one outcome for each request"))
        })
    }
}
