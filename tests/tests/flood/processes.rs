//! What an attack may do to the processes: nothing that is seen from outside.

use std::fs;

use rustle::cluster::Process;
use tests::TestCluster;

/// Most memory by which a process may grow, in bytes.
const MAY_GROW: u64 = 256 << 20;

/// Both as they were before the attacks.
pub struct Processes(Vec<Baseline>);

struct Baseline {
    name: &'static str,
    pid: u32,
    started: String,
    peak: u64,
}

impl Processes {
    pub fn of(cluster: &TestCluster) -> Self {
        let before = |name, process: &Process| {
            let pid = process.pid();
            Baseline { name, pid, started: started(pid).unwrap(), peak: peak(pid) }
        };
        let coordinator = before("coordinator", cluster.cluster.coordinator().unwrap());
        Self(vec![coordinator, before("worker", cluster.cluster.worker(0).unwrap())])
    }

    /// Still the same processes, none much larger, none of their tasks ended by a panic.
    pub fn check(&self, cluster: &TestCluster, attack: &str) {
        for (Baseline { name, pid, started: then, .. }, grown) in self.0.iter().zip(self.grown()) {
            assert_eq!(started(*pid).as_ref(), Some(then), "{attack}: the {name} is gone");
            assert!(grown <= MAY_GROW, "{attack}: the {name} grew by {grown} bytes");
        }
        for process in [cluster.cluster.coordinator(), cluster.cluster.worker(0)] {
            let log = fs::read_to_string(process.unwrap().log()).unwrap();
            assert!(!log.contains("panicked at"), "{attack}:\n{log}");
        }
    }

    /// Since then, at their largest, in bytes: of the coordinator and of the worker.
    pub fn grown(&self) -> Vec<u64> {
        self.0.iter().map(|before| peak(before.pid).saturating_sub(before.peak)).collect()
    }
}

/// When the process began, in ticks since the system's start; none where it has ended, waited for or not.
fn started(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    let state = fields.next()?;
    (!"ZX".contains(state)).then(|| fields.nth(18).unwrap_or_default().to_owned())
}

/// Resident memory at its largest.
fn peak(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.map_or(0, |line| line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10)
}

/// Seconds of a processor that the coordinator has used.
pub fn processor(cluster: &TestCluster) -> f64 {
    let pid = cluster.cluster.coordinator().unwrap().pid();
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    let ticks = |at: usize| fields.split(' ').nth(at).unwrap().parse::<f64>().unwrap();
    (ticks(11) + ticks(12)) / rustix::param::clock_ticks_per_second() as f64
}
