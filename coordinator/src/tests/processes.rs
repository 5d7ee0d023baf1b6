//! Worker processes of the tests, their heartbeats, and what they are granted.

use super::*;

/// A worker process of these tests.
#[derive(Clone, Copy)]
pub(super) struct Process {
    pub name: &'static str,
    pub number: u8,
}

pub(super) const A: Process = Process { name: "a", number: 1 };
pub(super) const B: Process = Process { name: "b", number: 2 };
pub(super) const C: Process = Process { name: "c", number: 3 };

impl Process {
    pub fn incarnation(self) -> Incarnation {
        Incarnation([self.number; 16])
    }
}

impl Coordinator {
    /// Registers a worker process.
    pub(super) fn join(&self, process: Process) {
        self.register(registration(process.name, process.number)).unwrap();
    }

    /// Sends a heartbeat without reports, and returns the reply.
    pub(super) fn beat(&self, process: Process) -> HeartbeatReply {
        self.send_heartbeat(process.name, process.number, &[], &[])
    }
}

/// The numbers of leases and standbys that a reply grants.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Grants {
    pub leases: usize,
    pub standbys: usize,
}

impl Grants {
    pub fn of(reply: &HeartbeatReply) -> Self {
        Self { leases: reply.leases.len(), standbys: reply.standbys.len() }
    }
}

/// Returns a report that the shard is served, or ready to be, with rows before `next_row` made.
pub(super) fn ready_from(grant: &LeaseGrant, next_row: u64) -> LeaseReport {
    LeaseReport { next_row, ..report(grant, ReportedState::Ready) }
}

/// Reports all leases as served and all standbys as ready up to the job's end, and returns the reply.
pub(super) fn report_all_ready(
    coordinator: &Coordinator,
    process: Process,
    reply: &HeartbeatReply,
) -> HeartbeatReply {
    let ready = |grants: &[LeaseGrant]| grants.iter().map(|it| ready_from(it, 8)).collect::<Vec<_>>();
    coordinator.send_heartbeat(process.name, process.number, &ready(&reply.leases), &ready(&reply.standbys))
}
