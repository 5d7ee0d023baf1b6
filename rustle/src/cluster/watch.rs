//! Processes of a local cluster that end by themselves.

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;

use super::{LocalCluster, Process};

/// Lines of a log shown with the end of its process.
const LINES: usize = 4;

/// The number of the signal that nothing can handle.
const SIGKILL: i32 = 9;

/// The place of a process in its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member {
    Coordinator,
    /// By index.
    Worker(usize),
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Coordinator => f.write_str("coordinator"),
            Self::Worker(index) => write!(f, "worker-{index}"),
        }
    }
}

/// A process that ended, and what is known of the reason.
#[derive(Debug)]
pub struct EndedProcess {
    pub member: Member,
    pub pid: u32,
    pub status: ExitStatus,
    pub log: PathBuf,
    /// The end of its log.
    pub tail: String,
}

impl fmt::Display for EndedProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (process {}) has ended: {}", self.member, self.pid, self.status)?;
        if self.status.signal() == Some(SIGKILL) {
            write!(f, "; it was killed, perhaps by the kernel for lack of memory")?;
        }
        write!(f, "; its log, {}, ends:", self.log.display())?;
        self.tail.lines().try_for_each(|line| write!(f, "\n  {line}"))
    }
}

impl LocalCluster {
    /// Removes and returns the processes that have ended by themselves.
    pub fn take_ended(&mut self) -> anyhow::Result<Vec<EndedProcess>> {
        let mut ended = Vec::new();
        ended.extend(take_if_ended(Member::Coordinator, &mut self.coordinator)?);
        for (index, worker) in self.workers.iter_mut().enumerate() {
            ended.extend(take_if_ended(Member::Worker(index), worker)?);
        }
        Ok(ended)
    }

    /// Starts a process again, in its place and under its name.
    pub fn start_again(&mut self, member: Member) -> anyhow::Result<()> {
        match member {
            Member::Coordinator => self.start_coordinator(),
            Member::Worker(index) => self.start_worker(index),
        }
    }

    /// Returns the number of workers that have not ended, as of the last look.
    pub fn workers_running(&self) -> usize {
        self.workers.iter().flatten().count()
    }
}

fn take_if_ended(member: Member, place: &mut Option<Process>) -> anyhow::Result<Option<EndedProcess>> {
    let Some(process) = place else { return Ok(None) };
    let Some(status) = process.exit_status()? else { return Ok(None) };
    let ended = EndedProcess {
        member,
        pid: process.pid(),
        status,
        log: process.log().to_owned(),
        tail: process.log_tail(LINES),
    };
    *place = None;
    Ok(Some(ended))
}
