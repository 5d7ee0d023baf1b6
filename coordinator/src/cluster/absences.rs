//! Workers that are not here, and why: what an operator asks first when a shard is not served.

use std::collections::BTreeMap;
use std::fmt;

use proto::WorkerId;
use tokio::time::Instant;

/// Absent workers that are remembered; the oldest are forgotten first.
const MAX_ABSENT: usize = 256;

/// Why a worker is not here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AbsenceCause {
    /// It sent no heartbeat for the time of a lease.
    LeaseEnded,
    /// It left by itself, as one does that drains or shuts down.
    Left,
    /// It was not let in, for this reason.
    Refused(String),
    /// It was not let in, because the coordinator's ledger is a copy or an older one.
    LedgerInDoubt,
}

/// Why no worker is let in, where the ledger is in doubt; the ledger's own problem says how it was found.
pub const LEDGER_IN_DOUBT: &str = "the coordinator's ledger is a copy or an older one";

impl AbsenceCause {
    /// Returns the cause's name in `/status`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::LeaseEnded => "lease_ended",
            Self::Left => "left",
            Self::Refused(_) | Self::LedgerInDoubt => "refused",
        }
    }
}

/// As the end of a sentence that begins with the worker's name.
impl fmt::Display for AbsenceCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LeaseEnded => f.write_str("is gone: it sent no heartbeat for the time of a lease"),
            Self::Left => f.write_str("has left"),
            Self::Refused(reason) => write!(f, "was not let in: {reason}"),
            Self::LedgerInDoubt => write!(f, "was not let in: {LEDGER_IN_DOUBT}"),
        }
    }
}

/// The absence of one worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absence {
    pub cause: AbsenceCause,
    /// When it was last heard of.
    pub since: Instant,
}

/// The absences of workers that were here, or asked to be let in, since this coordinator started.
#[derive(Debug, Default)]
pub struct Absences(BTreeMap<WorkerId, Absence>);

impl Absences {
    /// Notes that a worker is not here.
    pub fn note(&mut self, worker: WorkerId, cause: AbsenceCause, since: Instant) {
        if self.0.len() >= MAX_ABSENT && !self.0.contains_key(&worker) {
            let oldest =
                self.0.iter().min_by_key(|(_, absence)| absence.since).map(|(worker, _)| worker.clone());
            oldest.map(|oldest| self.0.remove(&oldest));
        }
        self.0.insert(worker, Absence { cause, since });
    }

    /// Forgets the absence of a worker that is here again.
    pub fn end(&mut self, worker: &WorkerId) {
        self.0.remove(worker);
    }

    /// Returns the absence of a worker; `None` if it is here, or was never heard of.
    pub fn of(&self, worker: &WorkerId) -> Option<&Absence> {
        self.0.get(worker)
    }

    /// Returns all absences, by the worker's name.
    pub fn all(&self) -> impl Iterator<Item = (&WorkerId, &Absence)> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_oldest_absence_makes_room() {
        let began = Instant::now();
        let worker = |number: usize| WorkerId::new(format!("w{number}")).unwrap();
        let mut absences = Absences::default();
        for number in 0..=MAX_ABSENT {
            let since = began + Duration::from_secs(number as u64);
            absences.note(worker(number), AbsenceCause::LeaseEnded, since);
        }
        assert_eq!(absences.all().count(), MAX_ABSENT);
        assert!(absences.of(&worker(0)).is_none() && absences.of(&worker(1)).is_some());
        absences.end(&worker(1));
        assert!(absences.of(&worker(1)).is_none());
    }
}
