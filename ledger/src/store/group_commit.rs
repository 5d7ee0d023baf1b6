//! Group commit: calls that arrive during a commit share the next one.

use std::{
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use crate::{
    LedgerError, Result,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
};

/// A queue of calls, each with an outcome of its own, that are committed in batches.
pub struct GroupCommit<Q, A> {
    calls: Mutex<Calls<Q, A>>,
}

struct Calls<Q, A> {
    /// Calls in the order of arrival.
    waiting: Vec<Waiting<Q>>,
    /// Outcomes of committed requests, until their callers take them.
    outcomes: HashMap<u64, Result<A>>,
    next_ticket: u64,
    /// A caller is committing a batch.
    is_busy: bool,
}

struct Waiting<Q> {
    ticket: u64,
    request: Q,
    /// Wakes the caller and no other: with one for all, each commit would wake every caller of the next one too.
    caller: Arc<Condvar>,
}

impl<Q, A> Default for GroupCommit<Q, A> {
    fn default() -> Self {
        let calls = Calls { waiting: vec![], outcomes: HashMap::new(), next_ticket: 0, is_busy: false };
        Self { calls: Mutex::new(calls) }
    }
}

impl<Q, A> GroupCommit<Q, A> {
    /// Runs the request in a batch with all that wait. `commit` returns one outcome for each request, in order, or
    /// fails for all of them. One caller commits for the others, and no caller waits longer than its own commit takes.
    /// Where `commit` panics or returns fewer outcomes, its effect is not known: each caller of that batch gets the
    /// error that `lost` makes.
    pub fn run(
        &self,
        request: Q,
        commit: impl FnOnce(&[&Q]) -> Result<Vec<Result<A>>>,
        lost: impl Fn(&str) -> LedgerError,
    ) -> Result<A> {
        let (ticket, batch) = match self.wait(request) {
            Turn::Over(Some(outcome)) => return outcome,
            Turn::Over(None) => return Err(lost("the call that committed it ended without an outcome")),
            Turn::Own(ticket, batch) => (ticket, batch),
        };
        let callers = batch.iter().filter(|it| it.ticket != ticket).map(|it| it.caller.clone()).collect();
        let turn = CommitTurn { queue: self, callers };
        let requests: Vec<&Q> = batch.iter().map(|it| &it.request).collect();
        let committed = catch_unwind(AssertUnwindSafe(|| commit(&requests)))
            .unwrap_or_else(|_| Err(lost("a commit panicked")))
            .and_then(|outcomes| {
                if outcomes.len() == batch.len() {
                    Ok(outcomes)
                } else {
                    Err(lost("a commit returned another number of outcomes than it had requests"))
                }
            });
        let outcomes = committed.unwrap_or_else(|error| batch.iter().map(|_| Err(error.clone())).collect());
        let own = {
            let mut calls = self.lock();
            calls.outcomes.extend(batch.iter().map(|it| it.ticket).zip(outcomes));
            calls.outcomes.remove(&ticket)
        };
        drop(turn);
        own.unwrap_or_else(|| Err(lost("a batch lacked the request of its own caller")))
    }

    /// Waits until the request has its outcome, or no commit is in progress: then the caller commits, for all that
    /// wait.
    fn wait(&self, request: Q) -> Turn<Q, A> {
        let mut calls = self.lock();
        let ticket = calls.next_ticket;
        calls.next_ticket += 1;
        let caller = Arc::new(Condvar::new());
        calls.waiting.push(Waiting { ticket, request, caller: caller.clone() });
        loop {
            if let Some(outcome) = calls.outcomes.remove(&ticket) {
                return Turn::Over(Some(outcome));
            }
            if !calls.is_busy {
                // The request is gone and has no outcome: the call that took it has unwound.
                if !calls.waiting.iter().any(|it| it.ticket == ticket) {
                    return Turn::Over(None);
                }
                calls.is_busy = true;
                return Turn::Own(ticket, std::mem::take(&mut calls.waiting));
            }
            calls = caller.wait(calls).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Calls<Q, A>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Turn<Q, A> {
    /// The request's outcome; `None` where it will never have one.
    Over(Option<Result<A>>),
    /// The caller commits: its ticket, and all requests that waited.
    Own(u64, Vec<Waiting<Q>>),
}

/// Lets the next caller commit when it is dropped, even where a commit unwinds, so that no call waits for ever.
struct CommitTurn<'q, Q, A> {
    queue: &'q GroupCommit<Q, A>,
    /// The others of the batch.
    callers: Vec<Arc<Condvar>>,
}

impl<Q, A> Drop for CommitTurn<'_, Q, A> {
    fn drop(&mut self) {
        let next = {
            let mut calls = self.queue.lock();
            calls.is_busy = false;
            calls.waiting.first().map(|it| it.caller.clone())
        };
        // The callers of the batch are done, and the first of the others commits next, unless a new one comes before it.
        self.callers.iter().chain(&next).for_each(|caller| caller.notify_one());
    }
}

#[cfg(test)]
mod tests {
    use std::{
        cell::Cell,
        path::PathBuf,
        sync::atomic::{AtomicUsize, Ordering::SeqCst},
        thread,
        time::{Duration, Instant},
    };

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(20);

    fn lost(reason: &str) -> LedgerError {
        LedgerError::Io { path: PathBuf::new(), reason: reason.to_owned() }
    }

    fn done(batch: &[&usize]) -> Result<Vec<Result<usize>>> {
        Ok(batch.iter().map(|request| Ok(**request)).collect())
    }

    fn waiting(queue: &GroupCommit<usize, usize>) -> usize {
        queue.lock().waiting.len()
    }

    /// Returns whether the condition became true in time.
    fn becomes_true(is_so: impl Fn() -> bool) -> bool {
        let deadline = Instant::now() + TIMEOUT;
        while !is_so() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(1));
        }
        is_so()
    }

    /// The caller that committed commits again at once, before the others of its batch have been woken.
    #[test]
    fn who_is_done_does_not_wait_for_the_next_commit() {
        const CALLERS: usize = 8;
        let queue = GroupCommit::default();
        let returned = AtomicUsize::new(0);
        let queue = &queue;
        let returned = &returned;
        thread::scope(|scope| {
            scope.spawn(move || {
                let commit = |batch: &[&usize]| {
                    assert!(becomes_true(|| waiting(queue) == CALLERS));
                    done(batch)
                };
                queue.run(0, commit, lost)
            });
            assert!(becomes_true(|| queue.lock().is_busy));
            for caller in 1..=CALLERS {
                scope.spawn(move || {
                    let led = Cell::new(false);
                    let commit = |batch: &[&usize]| {
                        led.set(true);
                        done(batch)
                    };
                    assert_eq!(queue.run(caller, commit, lost).ok(), Some(caller));
                    if !led.get() {
                        returned.fetch_add(1, SeqCst);
                        return;
                    }
                    let long = |batch: &[&usize]| {
                        let others = || returned.load(SeqCst) == CALLERS - 1;
                        assert!(becomes_true(others), "{} heard that they are done", returned.load(SeqCst));
                        done(batch)
                    };
                    assert_eq!(queue.run(99, long, lost).ok(), Some(99));
                });
            }
        });
    }

    #[test]
    fn callers_at_once_share_commits() {
        const CALLERS: usize = 16;
        const CALLS: usize = 50;
        let queue = GroupCommit::<usize, usize>::default();
        let commits = AtomicUsize::new(0);
        let late = AtomicUsize::new(0);
        // The outcome is the number of the commit.
        let commit = |batch: &[&usize]| {
            thread::sleep(Duration::from_millis(2));
            let number = commits.fetch_add(1, SeqCst) + 1;
            Ok(batch.iter().map(|_| Ok(number)).collect())
        };
        thread::scope(|scope| {
            for caller in 0..CALLERS {
                let queue = &queue;
                let commits = &commits;
                let late = &late;
                let commit = &commit;
                scope.spawn(move || {
                    for call in 0..CALLS {
                        let number =
                            queue.run(caller * CALLS + call, commit, lost).expect("nothing is refused");
                        if commits.load(SeqCst) > number + 2 {
                            late.fetch_add(1, SeqCst);
                        }
                    }
                });
            }
        });
        let commits = commits.into_inner();
        let late = late.into_inner();
        println!("{commits} commits, {late} answers more than two commits after their own");
        assert!(commits <= 3 * CALLS, "{commits} commits for {CALLS} calls of each of {CALLERS}");
        // A caller waits for its own commit, and for a processor, but for no other commit.
        assert!(late <= CALLERS * CALLS / 20, "{late} late answers");
    }

    #[test]
    fn no_caller_hangs_where_the_committing_thread_unwinds() {
        let queue = GroupCommit::<usize, usize>::default();
        let queue = &queue;
        thread::scope(|scope| {
            let panics = scope.spawn(move || {
                let commit = |_: &[&usize]| -> Result<Vec<Result<usize>>> {
                    assert!(becomes_true(|| waiting(queue) == 1));
                    std::panic::resume_unwind(Box::new(()))
                };
                queue.run(1, commit, |_| std::panic::resume_unwind(Box::new(())))
            });
            assert!(becomes_true(|| queue.lock().is_busy));
            assert_eq!(queue.run(2, done, lost).ok(), Some(2));
            assert!(panics.join().is_err());
        });
        assert_eq!(queue.run(3, done, lost).ok(), Some(3));
    }
}
