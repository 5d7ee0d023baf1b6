//! Tests real processes under real faults: a local cluster, jobs that bind and fetch rows without pause, a nemesis that
//! injects one fault each round, and a history that checks the invariants. `make chaos`, `make ends`, `make failover` and
//! `make slow-link` run it; README.md describes each.

pub mod calls;
pub mod cases;
pub mod clocks;
pub mod cluster;
pub mod copies;
pub mod damage;
pub mod disk;
pub mod ends;
pub mod environment;
pub mod failover;
pub mod figures;
pub mod fresh_noise;
pub mod history;
pub mod logs;
pub mod nemesis;
pub mod old_copies;
pub mod points;
pub mod power;
pub mod resets;
pub mod rewinds;
pub mod rows;
pub mod run;
pub mod side_cluster;
pub mod slow_link;
pub mod stale;
pub mod starts;
pub mod store_gone;
pub mod trainer;

/// One key for all clusters here, so that the oracle knows every row.
pub const KEY: [u8; 32] = *b"0123456789abcdefghijklmnopqrstuv";

/// The state that the parts of a session share.
pub struct Session {
    pub client: client::Client,
    pub cases: cases::Cases,
    pub history: history::History,
    pub is_over: std::sync::atomic::AtomicBool,
}

impl Session {
    pub fn is_over(&self) -> bool {
        self.is_over.load(std::sync::atomic::Ordering::Relaxed)
    }
}
