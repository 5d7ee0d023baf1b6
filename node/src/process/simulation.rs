//! A simulation runs a whole cluster on one thread, and the same way for the same seed. It takes over from the system
//! what would differ from run to run: [`crate::process::rng`], and the threads of [`crate::process::blocking`] and
//! [`crate::process::cpu_pool`]. Nothing but a simulation turns this on, and only for its own thread.

use std::cell::Cell;
use std::time::Duration;

thread_local! {
    static NEXT: Cell<Option<u64>> = const { Cell::new(None) };
}

/// The longest that blocking work waits before it begins, and again before its caller hears of it.
const LONGEST_WAIT: u64 = 8;

/// Begins a simulation on this thread.
pub fn begin(seed: u64) {
    NEXT.set(Some(seed));
}

/// This thread is like any other again.
pub fn end() {
    NEXT.set(None);
}

/// Returns whether this thread is a simulation.
pub fn is_on() -> bool {
    NEXT.get().is_some()
}

/// The seed's next number, by SplitMix64; `None` outside of a simulation.
pub(crate) fn next() -> Option<u64> {
    let state = NEXT.get()?.wrapping_add(0x9e37_79b9_7f4a_7c15);
    NEXT.set(Some(state));
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    Some(mixed ^ (mixed >> 31))
}

pub(crate) fn wait() -> Option<Duration> {
    next().map(|bits| Duration::from_millis(bits % (LONGEST_WAIT + 1)))
}
