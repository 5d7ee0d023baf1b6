//! Time limits: nothing that waits for other ranks waits for ever, and a rank that gives up ends the whole launch.

use std::{
    panic,
    process::abort,
    sync::{OnceLock, mpsc},
    thread::{self, ThreadId},
    time::{Duration, Instant},
};

use mpi::{
    Rank,
    request::{Request, Scope},
    topology::{Communicator, SimpleCommunicator},
};

/// The thread that MPI was started on, and this process's rank.
static PLACE: OnceLock<(ThreadId, Rank)> = OnceLock::new();

/// How long MPI may take to end the launch.
const ENDING: Duration = Duration::from_secs(10);

/// From now on every panic, on whatever thread, ends the launch: a rank that is gone would let the others wait.
pub fn end_launch_on_panic(rank: Rank) {
    let _ = PLACE.set((thread::current().id(), rank));
    panic::set_hook(Box::new(|panic| end_launch(format_args!("{panic}"))));
}

/// Says why, and ends all ranks.
pub fn end_launch(why: impl std::fmt::Display) -> ! {
    match PLACE.get() {
        Some((thread, rank)) if *thread == thread::current().id() => {
            eprintln!("noise-worker: rank {rank} ends the launch: {why}");
            // MPI asks its daemon to end all ranks, and waits for the answer of a daemon that may be gone.
            thread::spawn(|| {
                thread::sleep(ENDING);
                eprintln!(
                    "noise-worker: MPI has not ended the launch within {ENDING:?}; this rank ends by itself"
                );
                abort()
            });
            SimpleCommunicator::world().abort(1)
        }
        // MPI may be called on its own thread alone; a process that aborts ends the launch too.
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

/// How long to wait for other ranks.
#[derive(Clone, Copy, Debug)]
pub struct Limit(pub Duration);

impl Limit {
    /// A blocking call that other ranks take part in.
    pub fn guard<T>(self, what: &'static str, call: impl FnOnce() -> T) -> T {
        let (done, waiting) = mpsc::channel::<()>();
        thread::spawn(move || {
            if waiting.recv_timeout(self.0) == Err(mpsc::RecvTimeoutError::Timeout) {
                end_launch(self.passed(what));
            }
        });
        let value = call();
        drop(done);
        value
    }

    /// A request, moved on until it is complete; gives what it was about.
    pub fn wait<'a, D: ?Sized, S: Scope<'a>>(self, what: &str, request: Request<'a, D, S>) -> &'a D {
        self.complete(what, request, Pace::busy)
    }

    /// The same where others have work to do first, which needs the cores.
    pub fn wait_asleep<'a, D: ?Sized, S: Scope<'a>>(self, what: &str, request: Request<'a, D, S>) -> &'a D {
        self.complete(what, request, Pace::asleep)
    }

    fn complete<'a, D: ?Sized, S: Scope<'a>>(
        self,
        what: &str,
        mut request: Request<'a, D, S>,
        turn: fn(&mut Pace, &str),
    ) -> &'a D {
        let mut pace = Pace::new(self);
        loop {
            request = match request.test_with_data() {
                Ok((_, data)) => return data,
                Err(again) => again,
            };
            turn(&mut pace, what);
        }
    }

    fn passed(self, what: &str) -> String {
        format!("{what}: the other ranks did not come within {:?} (--time-limit)", self.0)
    }
}

/// Turns of a loop that polls.
pub struct Pace {
    limit: Limit,
    since: Instant,
}

/// How long a loop with nothing to do looks again at once.
const AWAKE: Duration = Duration::from_micros(200);
/// The same where data is on its way: a row may move only while it is looked at.
const AWAKE_SENDING: Duration = Duration::from_millis(20);
/// Between looks after that: little beside a row, and long enough to leave the core to who computes.
const NAP: Duration = Duration::from_micros(50);

impl Pace {
    pub fn new(limit: Limit) -> Self {
        Self { limit, since: Instant::now() }
    }

    /// Something happened.
    pub fn reset(&mut self) {
        self.since = Instant::now();
    }

    /// Data is on its way, which moves by being looked at.
    pub fn busy(&mut self, what: &str) {
        self.check(what);
        thread::yield_now();
    }

    /// Someone has to come, and has work to do first.
    pub fn asleep(&mut self, what: &str) {
        self.check(what);
        self.idle(false);
    }

    fn check(&self, what: &str) {
        if self.since.elapsed() > self.limit.0 {
            end_launch(self.limit.passed(what));
        }
    }

    /// Nobody has to come. `sending`: data is on its way, as fast as its reader takes it.
    pub fn idle(&mut self, sending: bool) {
        let awake = if sending { AWAKE_SENDING } else { AWAKE };
        if self.since.elapsed() < awake { thread::yield_now() } else { thread::sleep(NAP) }
    }
}
