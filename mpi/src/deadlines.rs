//! Time limits: nothing waits for other ranks forever, and a rank that gives up ends the whole launch.

use std::{
    panic,
    process::abort,
    sync::{OnceLock, mpsc},
    thread::{self, ThreadId},
    time::{Duration, Instant},
};

use rsmpi::{
    request::{Request, Scope},
    topology::{Communicator, SimpleCommunicator},
};

use crate::Rank;

/// The thread that MPI was started on, and this process's rank.
static MPI_THREAD: OnceLock<(ThreadId, Rank)> = OnceLock::new();

/// The time that MPI may take to end the launch before this process aborts.
const ABORT_TIMEOUT: Duration = Duration::from_secs(10);

/// Makes every panic, on any thread, end the launch: the other ranks would wait for a rank that is gone.
pub fn end_launch_on_panic(rank: Rank) {
    let _ = MPI_THREAD.set((thread::current().id(), rank));
    panic::set_hook(Box::new(|panic| end_launch(format_args!("{panic}"))));
}

/// Reports why, and ends all ranks.
pub fn end_launch(why: impl std::fmt::Display) -> ! {
    match MPI_THREAD.get() {
        Some((thread, rank)) if *thread == thread::current().id() => {
            eprintln!("noise-worker: rank {rank} ends the launch: {why}");
            // MPI asks its daemon to end all ranks, and waits for the answer of a daemon that may be gone.
            thread::spawn(|| {
                thread::sleep(ABORT_TIMEOUT);
                eprintln!(
                    "noise-worker: MPI has not ended the launch within {ABORT_TIMEOUT:?}; this rank ends by itself"
                );
                abort()
            });
            SimpleCommunicator::world().abort(1)
        }
        // Only its own thread may call MPI; a process that aborts ends the launch too.
        Some((_, rank)) => {
            eprintln!("noise-worker: rank {rank} ends the launch: {why}");
            abort()
        }
        None => {
            eprintln!("noise-worker: {why}");
            abort()
        }
    }
}

/// The time to wait for other ranks.
#[derive(Clone, Copy, Debug)]
pub struct TimeLimit(pub Duration);

impl TimeLimit {
    /// Runs a blocking call that other ranks take part in. The launch ends where it takes longer than the limit.
    pub fn guard<T>(self, what: &'static str, call: impl FnOnce() -> T) -> T {
        let (done, waiting) = mpsc::channel::<()>();
        thread::spawn(move || {
            if waiting.recv_timeout(self.0) == Err(mpsc::RecvTimeoutError::Timeout) {
                end_launch(self.exceeded(what));
            }
        });
        let value = call();
        drop(done);
        value
    }

    /// Waits until a request is complete and returns its data. Keeps the core busy, for data that moves by being polled.
    pub fn wait<'a, D: ?Sized, S: Scope<'a>>(self, what: &str, request: Request<'a, D, S>) -> &'a D {
        self.complete(what, request, IdleBackoff::busy)
    }

    /// Does the same as [`Self::wait`], asleep between polls: other ranks have work to do first, which needs the cores.
    pub fn wait_asleep<'a, D: ?Sized, S: Scope<'a>>(self, what: &str, request: Request<'a, D, S>) -> &'a D {
        self.complete(what, request, IdleBackoff::asleep)
    }

    fn complete<'a, D: ?Sized, S: Scope<'a>>(
        self,
        what: &str,
        mut request: Request<'a, D, S>,
        pause: fn(&mut IdleBackoff, &str),
    ) -> &'a D {
        let mut backoff = IdleBackoff::new(self);
        loop {
            request = match request.test_with_data() {
                Ok((_, data)) => return data,
                Err(again) => again,
            };
            pause(&mut backoff, what);
        }
    }

    fn exceeded(self, what: &str) -> String {
        format!("{what}: the other ranks did not come within {:?} (--time-limit)", self.0)
    }
}

/// Paces a loop that polls: it spins while something happens, then sleeps between polls.
pub struct IdleBackoff {
    limit: TimeLimit,
    since: Instant,
}

/// The time for which an idle loop polls without a pause.
const SPIN: Duration = Duration::from_micros(200);
/// The same while data is in flight: MPI may move a row only while it is polled.
const SPIN_WHILE_SENDING: Duration = Duration::from_millis(20);
/// The pause between polls after that: short beside the time of a row, and long enough to leave the core to others.
const POLL_INTERVAL: Duration = Duration::from_micros(50);

impl IdleBackoff {
    /// Starts now.
    pub fn new(limit: TimeLimit) -> Self {
        Self { limit, since: Instant::now() }
    }

    /// Notes that something happened.
    pub fn reset(&mut self) {
        self.since = Instant::now();
    }

    /// Yields while data is in flight, which moves by being polled. Ends the launch after the limit.
    pub fn busy(&mut self, what: &str) {
        self.check(what);
        thread::yield_now();
    }

    /// Pauses while another rank has work to do before it comes. Ends the launch after the limit.
    pub fn asleep(&mut self, what: &str) {
        self.check(what);
        self.idle(false);
    }

    fn check(&self, what: &str) {
        if self.since.elapsed() > self.limit.0 {
            end_launch(self.limit.exceeded(what));
        }
    }

    /// Pauses without a limit. `sending`: data is in flight, as fast as its reader takes it.
    pub fn idle(&mut self, sending: bool) {
        let awake = if sending { SPIN_WHILE_SENDING } else { SPIN };
        if self.since.elapsed() < awake { thread::yield_now() } else { thread::sleep(POLL_INTERVAL) }
    }
}
