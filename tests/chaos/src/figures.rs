//! The one line that says what the rounds have shown.

use std::{collections::BTreeMap, fmt, time::Duration};

use serde::Serialize;

use crate::{
    history::{History, Violation},
    nemesis::Fault,
};

#[derive(Debug, Default, Serialize)]
pub struct Figures {
    pub rounds: u64,
    pub faults: BTreeMap<Fault, u64>,
    /// Damaged ledgers that were refused.
    pub ledgers_refused: u64,
    /// Requests to a copy of the ledger, or to a coordinator without its anchor's store, that were refused, by the error's kind;
    /// and starts and commands without a ledger that were.
    pub copies_refused: BTreeMap<&'static str, u64>,
    /// Rows that adopted copies, and ledgers begun where one was lost, made of noise that no other ledger has.
    pub fresh_rows: u64,
    /// Coordinators that ended because nothing more could be written.
    pub full_disks_met: u64,
    /// Processes whose own log had the time that they were set to.
    pub other_clocks_seen: u64,
    pub connections_reset: u64,
    /// Rounds in which machines lost what they had not synced.
    pub power_cuts: u64,
    /// Rounds that ended a process at a point, by who was ended with it.
    pub ends: BTreeMap<&'static str, u64>,
    pub rows_bound: u64,
    /// Rows compared with the oracle, repeated ones included.
    pub rows_checked: u64,
    /// Requests under lost leases that a live worker refused.
    pub stale_refused: u64,
    pub longest_recovery_s: f64,
    pub seconds: f64,
    /// The violations, each with the seed of its round.
    pub violations: Vec<(u64, Violation, String)>,
    pub skipped: Vec<String>,
}

impl Figures {
    pub fn is_good(&self) -> bool {
        self.violations.is_empty() && self.rounds > 0
    }

    pub fn count(&self, broken: Violation) -> usize {
        self.violations.iter().filter(|(_, found, _)| *found == broken).count()
    }

    /// Takes over the violations seen in the round of that seed.
    pub fn take(&mut self, history: &History, seed: u64) {
        let found = history.take_violations();
        self.violations.extend(found.into_iter().map(|(broken, text)| (seed, broken, text)));
    }

    pub fn refused_on_copy(&mut self, kind: &'static str) {
        *self.copies_refused.entry(kind).or_default() += 1;
    }

    pub fn recovered_after(&mut self, time: Duration) {
        self.longest_recovery_s = self.longest_recovery_s.max(time.as_secs_f64());
    }

    pub fn json(&self) -> serde_json::Value {
        let mut json = serde_json::to_value(self).unwrap_or_default();
        for broken in [
            Violation::Lost,
            Violation::Doubled,
            Violation::Different,
            Violation::Stale,
            Violation::Served,
            Violation::Stuck,
        ] {
            let name = serde_json::to_value(broken).unwrap_or_default();
            json[name.as_str().unwrap_or_default()] = self.count(broken).into();
        }
        json["bound_95"] = (3.0 / self.rounds.max(1) as f64).into();
        json
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults: Vec<_> = self.faults.iter().map(|(fault, count)| format!("{fault} {count}")).collect();
        write!(
            f,
            "{} rounds ({}); {} rows bound, {} checked; {} lost, {} doubled, {} different, {} from old epochs, \
             {} damaged and served, {} stuck; {} damaged ledgers refused, {} requests under lost leases refused; \
             longest recovery {:.1} s; {:.0} s",
            self.rounds,
            faults.join(", "),
            self.rows_bound,
            self.rows_checked,
            self.count(Violation::Lost),
            self.count(Violation::Doubled),
            self.count(Violation::Different),
            self.count(Violation::Stale),
            self.count(Violation::Served),
            self.count(Violation::Stuck),
            self.ledgers_refused,
            self.stale_refused,
            self.longest_recovery_s,
            self.seconds,
        )?;
        if !self.copies_refused.is_empty() {
            let kinds: Vec<_> =
                self.copies_refused.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
            write!(f, "; refused on copies: {}; {} rows of fresh noise", kinds.join(", "), self.fresh_rows)?;
        }
        if self.full_disks_met > 0 {
            write!(f, "; {} met a full disk", self.full_disks_met)?;
        }
        if self.other_clocks_seen > 0 {
            write!(f, "; {} saw the other clock", self.other_clocks_seen)?;
        }
        if self.connections_reset > 0 {
            write!(f, "; {} connections reset", self.connections_reset)?;
        }
        if self.power_cuts > 0 {
            write!(f, "; {} lost what was not synced", self.power_cuts)?;
        }
        if !self.ends.is_empty() {
            let ends = self.ends.iter().map(|(company, count)| format!("{count} {company}"));
            let ends: Vec<_> = ends.collect();
            write!(f, "; ended {}", ends.join(", "))?;
        }
        if self.is_good() {
            write!(f, "; below {:.1e} a round at 95 %", 3.0 / self.rounds as f64)
        } else {
            Ok(())
        }
    }
}
