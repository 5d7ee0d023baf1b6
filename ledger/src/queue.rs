//! Group commit: calls that come while a commit is under way share the next one.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::{
    LedgerError, Result,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<Q, A> Queue<Q, A> {
    /// Runs the request in a batch with all that wait; `commit` gives one outcome a request, in order, or fails for
    /// all of them. The caller whose turn it is commits for the others. Where `commit` panics or gives fewer outcomes,
    /// what it did is not known: each caller of that batch gets the error that `lost` makes.
    pub fn run(
        &self,
        request: Q,
        commit: impl FnOnce(&[&Q]) -> Result<Vec<Result<A>>>,
        lost: impl Fn(&str) -> LedgerError,
    ) -> Result<A> {
        let own = Arc::new(Call { request, outcome: Mutex::default() });
        lock(&self.waiting).push(own.clone());
        let turn = lock(&self.turn);
        if let Some(outcome) = lock(&own.outcome).take() {
            return outcome;
        }
        // Whoever had the turn took all that waited then, and gave each an outcome: this call came later, and is among
        // those that wait now.
        let batch = std::mem::take(&mut *lock(&self.waiting));
        let requests: Vec<&Q> = batch.iter().map(|call| &call.request).collect();
        let committed = catch_unwind(AssertUnwindSafe(|| commit(&requests)))
            .unwrap_or_else(|_| Err(lost("a commit panicked")))
            .and_then(|outcomes| match outcomes.len() == batch.len() {
                true => Ok(outcomes),
                false => Err(lost("a commit gave another number of outcomes than it had requests")),
            });
        let outcomes = committed.unwrap_or_else(|error| batch.iter().map(|_| Err(error.clone())).collect());
        for (call, outcome) in batch.iter().zip(outcomes) {
            *lock(&call.outcome) = Some(outcome);
        }
        drop(turn);
        let outcome = lock(&own.outcome).take();
        outcome.unwrap_or_else(|| Err(lost("a batch lacked the request of its own caller")))
    }
}
