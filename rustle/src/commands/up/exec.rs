//! `rustle up --wait` and `--exec`: waiting until the job is served, and the command that the cluster is for.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use client::Client;
use proto::JobId;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

use super::sound;
use crate::cluster::LocalCluster;

/// Time between two looks at whether the shards are served.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// Time for the command to end after SIGTERM, before it is killed.
const GRACE: Duration = Duration::from_secs(5);

/// Waits until every shard of the job is served. Error: a process of the cluster has ended.
pub async fn wait_until_served(
    cluster: &mut LocalCluster,
    client: &Client,
    job: &JobId,
    show: impl Fn(String),
) -> anyhow::Result<()> {
    loop {
        let now = client.jobs().get(job).await?;
        if now.shards_ready == now.shards {
            return Ok(());
        }
        // A worker may have come whose record proves the ledger old: its shards would never be served.
        sound::stopped(&sound::status(client).await?)?;
        show(format!("{} of {} shards are served", now.shards_ready, now.shards));
        if let Some(ended) = cluster.take_ended()?.first() {
            bail!("{ended}");
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

/// The command that a cluster runs for: a process group, of the shell and what it starts. It is ended with the cluster.
#[derive(Debug)]
pub struct ClusterCommand(Child);

impl ClusterCommand {
    /// Starts the command by the shell, with these variables besides its environment.
    pub fn start(command: &str, variables: Vec<(&'static str, String)>) -> anyhow::Result<Self> {
        let child = Command::new("sh").args(["-c", command]).envs(variables).process_group(0).spawn();
        Ok(Self(child.with_context(|| format!("start sh -c {command:?}"))?))
    }

    /// Returns the exit status, once it has ended.
    pub fn ended(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        self.0.try_wait().context("the command of --exec")
    }

    fn end(&mut self) {
        let Ok(None) = self.0.try_wait() else { return };
        let group = Pid::from_child(&self.0);
        // It may have ended by now.
        let _ = kill_process_group(group, Signal::TERM);
        let deadline = Instant::now() + GRACE;
        while self.is_running(group) {
            if Instant::now() >= deadline {
                let _ = kill_process_group(group, Signal::KILL);
                let _ = self.0.wait();
                return;
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
    }

    /// Returns whether the shell or a process that it started runs.
    fn is_running(&mut self, group: Pid) -> bool {
        matches!(self.0.try_wait(), Ok(None)) || test_kill_process_group(group).is_ok()
    }
}

impl Drop for ClusterCommand {
    fn drop(&mut self) {
        self.end();
    }
}

/// Returns the exit status of this process for the command's: 128 and the number for a signal, as shells have it.
pub fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
