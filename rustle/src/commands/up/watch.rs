//! Watching the processes of `rustle up`, until a signal ends them all.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use node::process::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::timeout;

use super::exec::{ClusterCommand, exit_code};
use crate::cluster::{LocalCluster, Member};
use crate::streams;

/// The delay before a process is started again. It doubles up to the maximum while processes keep ending, so that one
/// that can't run does not fill its log.
const FIRST_DELAY: Duration = Duration::from_secs(1);
const MAX_DELAY: Duration = Duration::from_secs(30);

/// The signals that a cluster is watched by. None is lost while this process does something else.
pub struct Watch {
    terminate: Signal,
    interrupt: Signal,
    child_ended: Signal,
    restart: bool,
    delay: Duration,
    last_restart: Option<Instant>,
    command: Option<ClusterCommand>,
}

impl Watch {
    /// Starts to listen: from here on SIGINT and SIGTERM end the cluster in order.
    pub fn start(runtime: &Runtime, restart: bool) -> anyhow::Result<Self> {
        runtime.block_on(async {
            Ok(Self {
                terminate: signal(SignalKind::terminate())?,
                interrupt: signal(SignalKind::interrupt())?,
                child_ended: signal(SignalKind::child())?,
                restart,
                delay: FIRST_DELAY,
                last_restart: None,
                command: None,
            })
        })
    }

    /// Ends the cluster with this command, and with its exit status.
    pub fn end_with(&mut self, command: ClusterCommand) {
        self.command = Some(command);
    }

    /// Ends the command, which binds rows, and must not find its cluster gone. Returns whether there was one.
    fn end_command(&mut self) -> bool {
        self.command.take().is_some()
    }

    /// Returns the exit status of the command, once it has ended.
    fn take_command_end(&mut self) -> anyhow::Result<Option<ExitCode>> {
        let ended = self.command.as_mut().map(ClusterCommand::ended).transpose()?.flatten();
        Ok(ended.map(exit_code))
    }

    /// Watches until a signal stops the cluster (success), or what is left of it is of no use (failure).
    pub fn run(mut self, runtime: &Runtime, mut cluster: LocalCluster) -> anyhow::Result<ExitCode> {
        let mut down: Vec<Member> = Vec::new();
        loop {
            if let Some(code) = self.take_command_end()? {
                cluster.stop()?;
                return Ok(code);
            }
            let ended = cluster.take_ended()?;
            // Ctrl-C reaches every process of the terminal: children that ended by it ended in order.
            let is_stopping = !ended.is_empty() && runtime.block_on(self.is_stop_asked());
            for ended in ended.iter().filter(|_| !is_stopping) {
                streams::note(ended);
                down.push(ended.member);
            }
            let is_stopped = if is_stopping {
                true
            } else if down.is_empty() {
                runtime.block_on(self.stop_or_child())
            } else if self.restart {
                self.start_again(runtime, &mut cluster, &mut down)
            } else if cluster.coordinator().is_none() {
                streams::note(
                    "stopping: no row can be bound without a coordinator; --restart starts it again",
                );
                self.end_command();
                // Without a coordinator workers can't hand their shards over: they are killed, which loses none.
                return Ok(ExitCode::FAILURE);
            } else if cluster.workers_running() == 0 {
                streams::note("stopping: no worker is left to serve the job; --restart starts them again");
                self.end_command();
                cluster.stop()?;
                return Ok(ExitCode::FAILURE);
            } else {
                let left = cluster.workers_running();
                let workers = if left == 1 { "worker that runs" } else { "workers that run" };
                streams::note(format_args!(
                    "its shards go to the {left} {workers}; --restart would start it again"
                ));
                down.clear();
                false
            };
            if is_stopped {
                let is_cut_short = self.end_command();
                streams::note("stopping the workers, then the coordinator");
                cluster.stop()?;
                return Ok(if is_cut_short { ExitCode::FAILURE } else { ExitCode::SUCCESS });
            }
        }
    }

    /// Waits for a signal to stop, which returns true, or for the end of a child.
    async fn stop_or_child(&mut self) -> bool {
        tokio::select! {
            biased;
            _ = self.terminate.recv() => true,
            _ = self.interrupt.recv() => true,
            _ = self.child_ended.recv() => false,
        }
    }

    /// Returns whether a signal to stop has come already.
    async fn is_stop_asked(&mut self) -> bool {
        timeout(Duration::ZERO, self.stop()).await.is_ok()
    }

    async fn stop(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    /// Starts what is down again, after a delay; what can't be started stays down for the next time. Returns true if a
    /// signal came first.
    fn start_again(&mut self, runtime: &Runtime, cluster: &mut LocalCluster, down: &mut Vec<Member>) -> bool {
        let is_first = self.last_restart.is_none_or(|last| last.elapsed() > 2 * MAX_DELAY);
        self.delay = if is_first { FIRST_DELAY } else { (2 * self.delay).min(MAX_DELAY) };
        let delay = self.delay;
        if runtime.block_on(async { timeout(delay, self.stop()).await }).is_ok() {
            return true;
        }
        // A worker gets the coordinator's address when it starts.
        down.sort_by_key(|member| *member != Member::Coordinator);
        down.retain(|&member| match cluster.start_again(member) {
            Ok(()) => {
                streams::note(format_args!("{member} was started again"));
                false
            }
            Err(error) => {
                streams::note(format_args!("{member} could not be started again: {error:#}; trying again"));
                true
            }
        });
        self.last_restart = Some(Instant::now());
        false
    }
}
