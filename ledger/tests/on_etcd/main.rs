//! The ledger in a real etcd (Debian's `etcd-server`): the suite of a file's ledger again, and what only etcd has.
//! `cargo nextest run --release -p ledger --features etcd --test on_etcd`
#![allow(clippy::unwrap_used)] // a test says best where it stands

#[path = "../suite/against_model.rs"]
mod against_model;
#[path = "../suite/binding.rs"]
mod binding;
#[path = "../suite/branches.rs"]
mod branches;
#[path = "../suite/checkpoint_list.rs"]
mod checkpoint_list;
#[path = "../suite/data_sets.rs"]
mod data_sets;
mod ends;
#[allow(dead_code)] // some of it is for clusters
#[path = "../../../tests/src/etcd.rs"]
mod etcd;
#[path = "../../../tests/src/etcd_tls.rs"]
mod etcd_tls;
#[path = "../suite/jobs.rs"]
mod jobs;
mod leading;
mod log;
mod old_tokens;
#[path = "../suite/parts.rs"]
mod parts;
#[path = "../../../tests/src/ports.rs"]
mod ports;
mod secured;
#[path = "../suite/shards.rs"]
mod shards;
mod states;

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use etcd::Etcd;
use ledger::{
    Ledger,
    etcd::{Candidacy, Election, EtcdConfig, Term},
};

pub(crate) use parts::{ITERATIONS, commitment, id, job, nonce, range, rows, two_shards};

pub(crate) const LEASE: Duration = Duration::from_secs(4);

/// Returns the etcd that all tests of this process share.
fn shared() -> &'static Etcd {
    static SHARED: OnceLock<Etcd> = OnceLock::new();
    SHARED.get_or_init(|| {
        let (sender, receiver) = std::sync::mpsc::channel();
        // etcd ends with the thread that starts it: this one lasts as long as the process.
        thread::spawn(move || {
            sender.send(Etcd::for_the_process(1)).unwrap();
            thread::park();
        });
        receiver.recv().unwrap()
    })
}

/// Returns false: a million steps over etcd would take days.
pub(crate) fn is_long() -> bool {
    false
}

pub(crate) fn processors() -> usize {
    1
}

/// A place for one ledger: a prefix of its own in the shared etcd.
pub(crate) struct Place {
    prefix: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        Self { prefix: format!("place-{}", COUNT.fetch_add(1, Ordering::Relaxed)) }
    }

    /// Returns a new place. Long tests of the file backend use memory here.
    pub(crate) fn in_memory() -> Self {
        Self::new()
    }

    pub(crate) fn config(&self) -> EtcdConfig {
        self.config_over(&shared().address(0))
    }

    /// Returns this place, reached at another address of etcd.
    pub(crate) fn config_over(&self, address: &str) -> EtcdConfig {
        EtcdConfig::parse(&format!("etcd://{address}/{}", self.prefix), None, LEASE).unwrap()
    }

    pub(crate) fn open(&self) -> Ledger {
        Ledger::lead(elected(&Election::connect(&self.config()).unwrap())).unwrap()
    }

    pub(crate) fn with_job(&self) -> Ledger {
        let ledger = self.open();
        ledger.create_job(&job("j"), &two_shards()).unwrap();
        ledger
    }

    /// Returns the full name in etcd of a key of this place.
    pub(crate) fn key(&self, name: &str) -> String {
        format!("{}/{name}", self.prefix)
    }
}

/// Waits for the lead.
pub(crate) fn elected(election: &Election) -> Term {
    let deadline = Instant::now() + 5 * LEASE;
    loop {
        match election.campaign("http://here") {
            Ok(Candidacy::Elected(term)) => return term,
            Ok(Candidacy::LedBy(_)) => assert!(Instant::now() < deadline, "no coordinator gives up the lead"),
            Err(error) => panic!("{error}"),
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Runs `etcdctl`, which reads and changes etcd without the ledger.
pub(crate) fn etcdctl(arguments: &[&str]) -> String {
    let output = std::process::Command::new("etcdctl")
        .args(["--endpoints", &shared().address(0)])
        .args(arguments)
        .env("ETCDCTL_API", "3")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
