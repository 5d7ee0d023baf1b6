//! Connections that end in a reset, in the middle of whatever they carry: the kernel ends both of their sides.

use std::{
    io::{self, Read},
    net::{TcpListener, TcpStream},
    process::{Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use dice::Dice;

use crate::{cluster::LEASE_TTL, history::Violation, nemesis::Nemesis, points::Role};

/// A process that has no connection by then does not try.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Resets every TCP connection that `filter` (the words of ss) chooses, in a network namespace or in this one, and
/// says how many there were.
fn reset(namespace: Option<&str>, filter: &[&str]) -> anyhow::Result<u64> {
    let within = namespace.map(|name| ["ip", "netns", "exec", name]);
    let words: Vec<&str> = within
        .iter()
        .flatten()
        .copied()
        .chain(["ss", "--kill", "--tcp", "--numeric", "--no-header", "state", "established"])
        .chain(filter.iter().copied())
        .collect();
    let output = Command::new(words[0]).args(&words[1..]).stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("run {}", words.join(" ")))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {}", words.join(" "), said.trim());
    Ok(output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count() as u64)
}

/// Tries it on a connection of its own: a kernel without `INET_DIAG_DESTROY` says nothing, and resets nothing.
pub fn can_reset() -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut near = TcpStream::connect(listener.local_addr()?)?;
    let (mut far, _) = listener.accept()?;
    near.set_read_timeout(Some(Duration::from_secs(1)))?;
    far.set_read_timeout(Some(Duration::from_secs(1)))?;
    reset(None, &["src", &near.local_addr()?.to_string(), "dst", &near.peer_addr()?.to_string()])?;
    for (side, expected) in
        [(&mut near, io::ErrorKind::ConnectionAborted), (&mut far, io::ErrorKind::ConnectionReset)]
    {
        let kind = side.read(&mut [0]).map_or_else(|error| Some(error.kind()), |_| None);
        ensure!(kind == Some(expected), "ss --kill resets no connection here");
    }
    Ok(())
}

impl Nemesis<'_> {
    /// All connections of one process, its own and those to it, again and again; they may connect again in between.
    pub fn reset(&mut self, worker: usize, dice: &mut Dice) -> anyhow::Result<String> {
        let of_coordinator = dice.one_in(2);
        let lasts = dice.millis(500, 3 * LEASE_TTL.as_millis() as u64);
        let namespace = self.environment.namespace(worker);
        let url = self.cluster.processes.url();
        let coordinator = url.strip_prefix("http://").context("an address without TLS")?;
        let began = Instant::now();
        let mut count = 0;
        while began.elapsed() < lasts || count == 0 && began.elapsed() < TIMEOUT {
            count += if of_coordinator {
                reset(None, &["src", coordinator])?
            } else {
                reset(Some(&namespace), &[])?
            };
            sleep(dice.millis(0, 100));
        }
        let whose = if of_coordinator { "the coordinator".into() } else { format!("worker {worker}") };
        ensure!(count > 0, "{whose} had no connection to reset in {TIMEOUT:?}");
        self.figures.connections_reset += count;
        self.check_that_all_run();
        Ok(format!("{count} connections of {whose} reset within {lasts:?}"))
    }

    /// A process that ends by a reset would be started again unseen.
    fn check_that_all_run(&self) {
        let workers = (0..self.cluster.workers).map(|worker| (Role::Worker, worker));
        for (role, worker) in workers.chain([(Role::Coordinator, 0)]) {
            if !self.cluster.runs(role, worker) {
                let text = format!("{role:?} {worker} ended as connections were reset");
                self.session.history.violation(Violation::Stuck, text);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_were_chosen_are_reset_and_no_others() {
        if let Err(error) = can_reset() {
            println!("SKIPPED: {error:#}");
            return;
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let pair = || {
            let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            (near, listener.accept().unwrap().0)
        };
        let (chosen, _far) = pair();
        let (other, _held) = pair();
        let ends = [chosen.local_addr(), chosen.peer_addr()].map(|end| end.unwrap().to_string());
        assert_eq!(reset(None, &["src", &ends[0], "dst", &ends[1]]).unwrap(), 1);
        assert!(chosen.take_error().unwrap().is_some());
        assert!(other.take_error().unwrap().is_none());
        assert!(reset(None, &["no", "such", "words"]).is_err());
    }
}
