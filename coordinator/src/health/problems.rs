//! The problems that there can be, from the state of the cluster and of this machine.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use ledger::{AnchorTrouble, JobState};
use node::config::units::show_bytes;
use node::process::disk::DiskSpace;
use node::process::timestamp::rfc3339;
use proto::WorkerId;
use proto::model::JobMark;
use tokio::time::Instant;

use super::monitor::Conditions;
use super::problem::{Problem, Severity};
use crate::cluster::{Absence, AbsenceCause, Cluster, JobView};

/// The time for which a lost worker that did not come back is shown, unless a shard still misses it.
const LOST_WORKER_SHOWN: Duration = Duration::from_secs(86_400);
/// Problems of one kind that are listed one by one.
const MAX_OF_A_KIND: usize = 20;
const DAY: Duration = Duration::from_secs(86_400);
/// The time before a certificate's end at which it is a warning, and at which it is critical.
const CERTIFICATE_NEAR: Duration = Duration::from_secs(14 * 86_400);
const CERTIFICATE_VERY_NEAR: Duration = Duration::from_secs(2 * 86_400);
/// The free part of a disk, and its free bytes, below which it fills.
const DISK_FREE_PART: f64 = 0.1;
const DISK_FREE_BYTES: u64 = 1 << 30;
/// Free bytes below which the ledger's next growth may fail.
const DISK_FULL_BYTES: u64 = 100 << 20;

/// Returns the problems of workers, shards and ledger.
pub fn problems_of_cluster(cluster: &Cluster, now: Instant) -> Vec<Problem> {
    let mut problems = Vec::new();
    problems.extend(copied(cluster));
    problems.extend(no_worker(cluster, now));
    problems.extend(cluster.jobs().filter_map(|view| not_served(cluster, now, view)));
    problems.extend(
        cluster.contradictions().take(MAX_OF_A_KIND).map(|(worker, mark)| behind(cluster, &worker, &mark)),
    );
    problems.extend(stopped(cluster).take(MAX_OF_A_KIND));
    problems.extend(behind_without_jobs(cluster));
    let absent =
        cluster.members.absences().all().filter_map(|(worker, absence)| absent(now, worker, absence));
    problems.extend(absent.take(MAX_OF_A_KIND));
    problems
}

fn copied(cluster: &Cluster) -> Option<Problem> {
    let next_step = "stop this coordinator; go on with the original ledger, or adopt this one where it is a file: rustle ledger \
                     adopt --data-dir DIR (docs/operations.md, Disaster); in etcd bring a newer snapshot back";
    let what = cluster.copied.as_ref()?.to_string();
    Some(Problem::new(Severity::Critical, "ledger_copied", what, next_step))
}

fn no_worker(cluster: &Cluster, now: Instant) -> Option<Problem> {
    if cluster.members.all_live(now).next().is_some() {
        return None;
    }
    let jobs = cluster.jobs().filter(|view| view.is_served()).count();
    let severity = if jobs > 0 { Severity::Critical } else { Severity::Warning };
    let what = match jobs {
        0 => "no worker is registered".to_owned(),
        jobs => format!(
            "no worker is registered, and {jobs} {} served",
            if jobs == 1 { "job is not" } else { "jobs are not" }
        ),
    };
    let last = cluster.members.absences().all().map(|(_, absence)| absence.since).max();
    let next_step = "start a worker: rustle worker --coordinator URL --key-file FILE --state-dir DIR";
    Some(Problem::new(severity, "no_worker", what, next_step).began(last))
}

fn not_served(cluster: &Cluster, now: Instant, view: &JobView) -> Option<Problem> {
    let unserved = cluster.reasons_unserved(now, view);
    let first = unserved.first()?;
    let job = &view.record.job;
    let missing = unserved.len();
    let all = view.shards.len();
    let of = if all == 1 {
        "its shard is not served".to_owned()
    } else {
        format!("{missing} of {all} shards are not served")
    };
    let what = format!("job {job}: {of}: {first}");
    let problem = Problem::new(Severity::Critical, "shards_not_served", what, first.next_step());
    Some(problem.of_job(job).began(first.since()))
}

fn behind(cluster: &Cluster, worker: &WorkerId, mark: &JobMark) -> Problem {
    let JobMark { job, branch, next_row, .. } = mark;
    let seen = format!("{worker} has released rows of it up to {next_row} on branch {branch}");
    let (kind, what, next_step) = match cluster.job(job) {
        Ok(view) => (
            "ledger_behind",
            format!(
                "job {job} is stopped: this ledger is an older copy. {seen}, and the ledger knows of {} on branch {}",
                view.bound.next_row, view.record.branch
            ),
            "bind nothing; bring the newest ledger back, or begin a new ledger and a new job and account for both \
             (docs/operations.md, Disaster)",
        ),
        Err(_) => (
            "job_unknown_to_ledger",
            format!("job {job} is not in this ledger, and {seen}: the ledger is an older copy"),
            "bind nothing; bring the newest ledger back, and keep this worker's --state-dir (docs/operations.md, \
             Disaster)",
        ),
    };
    Problem::new(Severity::Critical, kind, what, next_step).of_job(job)
}

/// Jobs that a proof has stopped of which no mark is left to show.
fn stopped(cluster: &Cluster) -> impl Iterator<Item = Problem> {
    let shown: BTreeSet<_> = cluster.contradictions().map(|(_, mark)| mark.job).collect();
    let open = cluster.jobs().filter(|view| view.record.state != JobState::Destroyed);
    let jobs = open.map(|view| &view.record.job).filter(move |job| !shown.contains(*job));
    jobs.filter_map(|job| {
        let proof = cluster.refusal(job)?;
        let next_step = "bind nothing; bring the newest ledger back, or begin a new ledger and a new job and account for \
                         both (docs/operations.md, Disaster)";
        Some(Problem::new(Severity::Critical, "ledger_behind", proof.to_string(), next_step).of_job(job))
    })
}

/// The proof that the whole ledger is old, where no job shows it.
fn behind_without_jobs(cluster: &Cluster) -> Option<Problem> {
    let (worker, epoch) = cluster.epoch_proof()?;
    if cluster.jobs().any(|view| view.record.state != JobState::Destroyed) {
        return None;
    }
    let what = format!(
        "this ledger is an older copy: {worker} has seen a later coordinator on it, of epoch {epoch}"
    );
    let next_step = "bring the newest ledger back, or begin a new one (docs/operations.md, Disaster)";
    Some(Problem::new(Severity::Critical, "ledger_behind", what, next_step))
}

fn absent(now: Instant, worker: &WorkerId, absence: &Absence) -> Option<Problem> {
    let next_step = match &absence.cause {
        // The ledger in doubt is a problem of its own.
        AbsenceCause::Left | AbsenceCause::LedgerInDoubt => return None,
        AbsenceCause::LeaseEnded => {
            format!("start {worker} again; its log says why it ended, or the network between")
        }
        AbsenceCause::Refused(_) => format!("give {worker} the program of the coordinator's version"),
    };
    if now.duration_since(absence.since) > LOST_WORKER_SHOWN {
        return None;
    }
    let kind = match &absence.cause {
        AbsenceCause::Refused(_) => "worker_refused",
        _ => "worker_gone",
    };
    let what = format!("{worker} {}", absence.cause);
    Some(Problem::new(Severity::Warning, kind, what, next_step).about(worker).began(absence.since))
}

/// Returns the problem of an anchor that is not renewed.
pub fn not_renewed(trouble: &AnchorTrouble) -> Problem {
    let AnchorTrouble { store, reason, is_leased } = trouble;
    let severity = if *is_leased { Severity::Warning } else { Severity::Critical };
    let soon = if *is_leased { "soon " } else { "" };
    let what = format!(
        "the ledger's anchor in {store} is not renewed, and {soon}nothing is bound and no shard goes to another worker: {reason}"
    );
    let next_step = "make the checkpoint store reachable and writable for the coordinator; or restart it with another \
                     --checkpoint-url, or none, once you know that no copy of this ledger runs";
    Problem::new(severity, "anchor_not_renewed", what, next_step)
}

/// Returns the problems of this machine: its certificate and its disk.
pub fn problems_of_machine(conditions: &Conditions, now: SystemTime) -> Vec<Problem> {
    let certificate = conditions.certificate_ends.and_then(|ends| certificate(ends, now));
    let disk = conditions.disk.and_then(disk);
    certificate.into_iter().chain(disk).collect()
}

fn certificate(ends: SystemTime, now: SystemTime) -> Option<Problem> {
    let left = ends.duration_since(now).unwrap_or_default();
    let severity = match left {
        left if left < CERTIFICATE_VERY_NEAR => Severity::Critical,
        left if left < CERTIFICATE_NEAR => Severity::Warning,
        _ => return None,
    };
    let verb = if left.is_zero() { "ended" } else { "ends" };
    let rest = match left {
        left if left.is_zero() => ": no process connects to it any more".to_owned(),
        left if left < DAY => format!(", in {} hours", left.as_secs() / 3600),
        left => format!(", in {} days", left.as_secs() / 86_400),
    };
    let what = format!("the coordinator's certificate {verb} on {}{rest}", rfc3339(ends));
    let next_step = "rustle certs issue --authority DIR --role coordinator --out its TLS folder; it is taken up within a \
                     second, without a restart";
    Some(Problem::new(severity, "certificate_ends", what, next_step))
}

fn disk(space: DiskSpace) -> Option<Problem> {
    let DiskSpace { free_bytes, total_bytes } = space;
    if free_bytes >= DISK_FREE_BYTES && space.free_part() >= DISK_FREE_PART {
        return None;
    }
    let severity = if free_bytes < DISK_FULL_BYTES { Severity::Critical } else { Severity::Warning };
    let what = format!(
        "the disk of the data folder fills: {} of {} are free; a full disk ends the coordinator, for it binds nothing that \
         it can't record",
        show_bytes(free_bytes),
        show_bytes(total_bytes)
    );
    let next_step = "make room, or move checkpoints elsewhere: --checkpoint-url, --keep-checkpoints";
    Some(Problem::new(severity, "disk_fills", what, next_step))
}
