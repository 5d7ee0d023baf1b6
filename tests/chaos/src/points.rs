//! Every durable step, named: where a process can be ended on the spot while the service works, and what leads there.
//! Those of a ledger in etcd are ended by `ledger/tests/on_etcd/ends.rs` and `tests/tests/etcd/starts.rs`.

/// The event that makes the service reach a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// Jobs that train do.
    Training,
    /// A start of the process: of a worker, without the record that it had.
    Start,
    /// A start of a worker on the record that it had, whose last line is cut.
    Reopening,
    /// A worker that is lost, and shards that get another owner.
    Loss,
    /// A job that is made, trained for some rows and destroyed.
    Job,
    Reshard,
    Rewind,
    Checkpoint,
    /// A ledger that is begun, and the first start on it.
    FirstStart,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Coordinator,
    Worker,
}

#[derive(Clone, Debug)]
pub struct Point {
    pub name: String,
    pub role: Role,
    pub way: Trigger,
}

/// Of the ledger, beside those of [`ledger::FAIL_POINTS`] that are changes.
const CREATION: [&str; 3] = ["begin", "before_link", "after_link"];

const OTHERS: [(&str, Role, Trigger); 20] = [
    ("checkpoint::piece::begin", Role::Worker, Trigger::Checkpoint),
    ("checkpoint::piece::part", Role::Worker, Trigger::Checkpoint),
    ("checkpoint::piece::finish", Role::Worker, Trigger::Checkpoint),
    ("checkpoint::piece::end", Role::Worker, Trigger::Checkpoint),
    ("checkpoint::manifest::begin", Role::Coordinator, Trigger::Checkpoint),
    ("checkpoint::manifest::end", Role::Coordinator, Trigger::Checkpoint),
    ("checkpoint::delete::begin", Role::Coordinator, Trigger::Checkpoint),
    ("checkpoint::delete::piece", Role::Coordinator, Trigger::Checkpoint),
    ("released::append::begin", Role::Worker, Trigger::Training),
    ("released::append::written", Role::Worker, Trigger::Training),
    ("released::append::end", Role::Worker, Trigger::Training),
    ("released::create::begin", Role::Worker, Trigger::Start),
    ("released::create::end", Role::Worker, Trigger::Start),
    ("released::reopen::begin", Role::Worker, Trigger::Reopening),
    ("released::reopen::cut", Role::Worker, Trigger::Reopening),
    ("released::reopen::written", Role::Worker, Trigger::Reopening),
    ("released::reopen::end", Role::Worker, Trigger::Reopening),
    ("ledger::anchor::noted", Role::Coordinator, Trigger::Start),
    ("ledger::anchor::known", Role::Coordinator, Trigger::Start),
    (FOLDER, Role::Coordinator, Trigger::FirstStart),
];

/// The sync of a folder that has a new name in it: as a ledger is begun, that of the ledger's folder and the ledger's,
/// and once more as the ledger opens.
pub const FOLDER: &str = "folder::sync";
pub const FOLDER_PASSES_OF_INIT: u64 = 2;

/// Of each change of [`ledger::FAIL_POINTS`].
const STEPS: [&str; 3] = ["begin", "before_commit", "after_commit"];

/// All points, in a fixed order.
pub fn all() -> Vec<Point> {
    let of = |name: String, role, way| Point { name, role, way };
    let changes = ledger::FAIL_POINTS.iter().flat_map(|change| {
        STEPS.map(|step| of(format!("ledger::{change}::{step}"), Role::Coordinator, way_to(change)))
    });
    let creation = CREATION.iter();
    let creation =
        creation.map(|step| of(format!("ledger::create::{step}"), Role::Coordinator, Trigger::FirstStart));
    let others = OTHERS.iter().map(|(name, role, way)| of((*name).to_owned(), *role, *way));
    let sending = of("delivery::chunk".to_owned(), Role::Worker, Trigger::Training);
    changes.chain(creation).chain(others).chain([sending]).collect()
}

fn way_to(change: &str) -> Trigger {
    match change {
        "take_up" | "next_epoch" => Trigger::Start,
        "create_job" | "set_job_state" => Trigger::Job,
        "set_owners" => Trigger::Loss,
        "replace_shards" => Trigger::Reshard,
        "open_branch" => Trigger::Rewind,
        "add_checkpoint" | "remove_checkpoint" => Trigger::Checkpoint,
        _ => Trigger::Training,
    }
}
