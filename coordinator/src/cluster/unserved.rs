//! Why a shard is not served, and why no other worker takes it.

use std::fmt;

use proto::WorkerId;
use tokio::time::Instant;

use super::absences::{Absence, AbsenceCause, LEDGER_IN_DOUBT};
use super::cooldowns::CooldownReason;
use super::{Cluster, JobView, Member, ShardView};

/// Why a shard is not served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnservedReason {
    /// No worker owns it.
    Unowned { takers: Takers },
    /// Its owner is not here.
    OwnerAbsent { worker: WorkerId, absence: OwnerAbsence, takers: Takers },
    /// Its owner reported that it can't serve it.
    Failed { worker: WorkerId, message: String },
    /// Its owner restores it.
    Restoring { worker: WorkerId },
    /// Its owner has not reported it yet.
    Unreported { worker: WorkerId },
}

/// Why the owner of a shard is not here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnerAbsence {
    Known(Absence),
    /// This coordinator has just started, and gives it the time of a lease to come back.
    Awaited,
    /// It has not come back since this coordinator started.
    NotSeen,
}

/// What the other workers do about a shard without an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Takers {
    /// No worker is registered. The refusal of one that asked to be, if there was one.
    NoWorker { refused: Option<(WorkerId, String)> },
    /// None of those registered may take it. The numbers of workers that are kept from it by each obstacle.
    Unsuitable(Obstacles),
    /// One of them takes it at the next pass of placement.
    Next,
}

/// The numbers of registered workers that can't take a shard, by the obstacle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Obstacles {
    pub other_key: usize,
    pub failed: usize,
    pub draining: usize,
    pub slow: usize,
    pub no_memory: usize,
}

impl UnservedReason {
    /// Returns the reason's name in `/status`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Unowned { takers } | Self::OwnerAbsent { takers, .. } => takers.kind(),
            Self::Failed { .. } => "owner_failed",
            Self::Restoring { .. } => "restoring",
            Self::Unreported { .. } => "owner_unreported",
        }
    }

    /// Returns when its owner was last heard of, if that is known and is the reason.
    pub fn since(&self) -> Option<Instant> {
        match self {
            Self::OwnerAbsent { absence: OwnerAbsence::Known(absence), .. } => Some(absence.since),
            _ => None,
        }
    }

    /// Returns what an operator does next.
    pub fn next_step(&self) -> String {
        let start = "start a worker with the job's key: rustle worker --coordinator URL --key-file FILE --state-dir DIR";
        match self {
            Self::Unowned { takers: Takers::Next } | Self::Restoring { .. } | Self::Unreported { .. } => {
                "wait: it is being made ready; a longer job replays longer".to_owned()
            }
            Self::OwnerAbsent { takers: Takers::Next, .. } => "wait: another worker takes it over".to_owned(),
            Self::Failed { worker, .. } => format!("read the log of {worker} and mend what it names"),
            Self::OwnerAbsent { worker, .. } => {
                format!("start {worker} again, its log says why it ended; or {start}")
            }
            Self::Unowned { .. } => start.to_owned(),
        }
    }
}

impl fmt::Display for UnservedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unowned { takers } => write!(f, "{takers}"),
            Self::OwnerAbsent { worker, absence, takers } => match absence {
                OwnerAbsence::Known(Absence { cause, .. }) => write!(f, "{worker} {cause}; {takers}"),
                OwnerAbsence::Awaited => {
                    write!(
                        f,
                        "{worker} has not registered yet with this coordinator, which has just started; {takers}"
                    )
                }
                OwnerAbsence::NotSeen => {
                    write!(
                        f,
                        "{worker} is gone: it has not registered since this coordinator started; {takers}"
                    )
                }
            },
            Self::Failed { worker, message } => write!(f, "{worker} failed: {message}"),
            Self::Restoring { worker } => write!(f, "{worker} restores it"),
            Self::Unreported { worker } => write!(f, "{worker} has not reported it yet"),
        }
    }
}

impl Takers {
    fn kind(&self) -> &'static str {
        match self {
            Self::NoWorker { .. } => "no_worker",
            Self::Unsuitable(_) => "no_suitable_worker",
            Self::Next => "moving",
        }
    }
}

impl fmt::Display for Takers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoWorker { refused: None } => f.write_str("no worker is registered"),
            Self::NoWorker { refused: Some((worker, reason)) } => {
                write!(f, "no worker is registered; {worker} was not let in: {reason}")
            }
            Self::Next => f.write_str("another worker takes it"),
            Self::Unsuitable(obstacles) => write!(f, "no registered worker can take it ({obstacles})"),
        }
    }
}

impl fmt::Display for Obstacles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = [
            (self.other_key, "another key than the job's"),
            (self.failed, "failed at it lately, as its log says"),
            (self.draining, "draining, leaving, or leases not reported yet"),
            (self.slow, "makes no rows"),
            (self.no_memory, "too little memory left"),
        ];
        let named: Vec<_> = named
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, why)| format!("{why}: {count}"))
            .collect();
        f.write_str(&named.join("; "))
    }
}

impl Cluster {
    /// Returns what the workers that do not own a shard do about it.
    pub(super) fn takers(&self, now: Instant, view: &JobView, shard: &ShardView) -> Takers {
        let live: Vec<_> = self.members.all_live(now).collect();
        if live.is_empty() {
            let refusal = |(worker, absence): (&WorkerId, &Absence)| match &absence.cause {
                AbsenceCause::Refused(reason) => Some((worker.clone(), reason.clone())),
                AbsenceCause::LedgerInDoubt => Some((worker.clone(), LEDGER_IN_DOUBT.to_owned())),
                _ => None,
            };
            return Takers::NoWorker { refused: self.members.absences().all().find_map(refusal) };
        }
        if !shard.is_unschedulable {
            return Takers::Next;
        }
        let mut obstacles = Obstacles::default();
        live.iter()
            .for_each(|(worker, member)| self.count_obstacle(now, view, worker, member, &mut obstacles));
        Takers::Unsuitable(obstacles)
    }

    fn count_obstacle(
        &self,
        now: Instant,
        view: &JobView,
        worker: &WorkerId,
        member: &Member,
        obstacles: &mut Obstacles,
    ) {
        let cooldown = self.cooldowns.active(now, &view.record.job, worker, member.incarnation);
        let counted = match cooldown {
            Some(CooldownReason::KeyMismatch) => &mut obstacles.other_key,
            Some(CooldownReason::Failed) => &mut obstacles.failed,
            None if !member.takes_shards() => &mut obstacles.draining,
            None if self.stragglers.is_avoided(worker, now) => &mut obstacles.slow,
            None => &mut obstacles.no_memory,
        };
        *counted += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_obstacles_of_all_workers_are_counted_in_one_sentence() {
        let obstacles = Obstacles { other_key: 1, draining: 2, ..Obstacles::default() };
        assert_eq!(
            Takers::Unsuitable(obstacles).to_string(),
            "no registered worker can take it (another key than the job's: 1; draining, leaving, or leases not reported \
             yet: 2)"
        );
    }
}
