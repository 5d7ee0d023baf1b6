//! The state that the nodes of one simulation share with its checks.
//!
//! The files of the simulated cluster name each other: every actor (trainer, operator, adversary, nemesis) acts on the
//! world, and the world holds what each has seen.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use checkpoint_store::PlainHttp;
use coordinator::checkpointing::interval::{Expectations, Schedule};
use coordinator::{QuotaSettings, Settings, TestProbe};
use dice::Dice;
use proto::Nonce;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::anchors::Anchors;
use crate::cases::{self, Case};
use crate::disk::{Disk, SECTORS};
use crate::history::History;
use crate::mishaps::Mishap;
use crate::site::{Site, Standing, Volume};
use crate::software::COORDINATOR;

/// The last of them joins late, or never.
pub const WORKERS: usize = 4;
pub const LEASE_TTL: Duration = Duration::from_secs(1);
/// The sites, by their numbers.
pub const ORIGINAL: usize = 0;
pub const COPY: usize = 1;
const HEARTBEAT: Duration = Duration::from_millis(150);

pub struct World {
    pub seed: u64,
    /// Where the ledger is, and where a copy of it may be.
    pub sites: [Site; 2],
    /// What happens to the ledger's file.
    pub mishap: Option<Mishap>,
    /// The id of the ledger, however often its making is cut short.
    pub ledger_id: Nonce,
    pub cases: [&'static Case; 2],
    anchors: Option<Arc<Anchors>>,
    is_copy_on: AtomicBool,
    is_mishap_over: AtomicBool,
    /// The last worker may join.
    pub is_grown: AtomicBool,
    history: Mutex<History>,
    drains: Mutex<Vec<CancellationToken>>,
    /// The stop tokens of every process of the coordinator.
    stops: Mutex<Vec<CancellationToken>>,
    /// Checkpoints, where this seed has them.
    store: Option<TempDir>,
    /// What workers released, where this seed's keep it over their own ends.
    records: Option<TempDir>,
    /// The folders of volumes.
    _volumes: TempDir,
}

/// Where there is such a thing: only processes end here, no machines.
fn in_memory() -> io::Result<TempDir> {
    let shared = Path::new("/dev/shm");
    if shared.is_dir() { TempDir::new_in(shared) } else { TempDir::new() }
}

pub fn worker(at: usize) -> String {
    format!("worker-{at}")
}

impl World {
    pub fn new(seed: u64, is_printed: bool) -> anyhow::Result<Arc<Self>> {
        let has_store = Dice::named(seed, "store").one_in(3);
        let has_records = Dice::named(seed, "records").one_in(2);
        let cases = [cases::case(seed, 0), cases::case(seed, 1)];
        let mishap = Mishap::of(seed);
        let has_anchors = mishap.is_some_and(Mishap::needs_anchors) || Dice::named(seed, "anchors").one_in(2);
        let sector = *Dice::named(seed, "sector").pick(&SECTORS);
        let volumes = in_memory()?;
        let volume = |name: &str| Volume::new(volumes.path().join(name), Disk::with_sectors_of(sector));
        let mut history = History::new(is_printed);
        history.may_be_copied = mishap.is_some_and(Mishap::stops_original);
        Ok(Arc::new(Self {
            seed,
            sites: [
                Site::new(COORDINATOR, volume("original")?, Standing::Current),
                Site::new("copy", volume("copy")?, Standing::Missing),
            ],
            mishap,
            ledger_id: node::process::rng::nonce()?,
            cases,
            anchors: has_anchors.then(|| Anchors::new(seed)),
            is_copy_on: AtomicBool::new(false),
            is_mishap_over: AtomicBool::new(mishap.is_none()),
            is_grown: AtomicBool::new(false),
            history: Mutex::new(history),
            drains: Mutex::new(vec![CancellationToken::new(); WORKERS]),
            stops: Mutex::default(),
            store: has_store.then(tempfile::tempdir).transpose()?,
            records: has_records.then(in_memory).transpose()?,
            _volumes: volumes,
        }))
    }

    pub fn history(&self) -> MutexGuard<'_, History> {
        lock(&self.history)
    }

    pub fn site(&self, at: usize) -> &Site {
        &self.sites[at]
    }

    /// The store of anchors elsewhere, where this seed has one.
    pub fn anchors(&self) -> Option<&Arc<Anchors>> {
        self.anchors.as_ref()
    }

    pub fn anchors_if_any(&self, act: impl FnOnce(&Arc<Anchors>)) {
        if let Some(anchors) = &self.anchors {
            act(anchors);
        }
    }

    pub fn is_copy_on(&self) -> bool {
        self.is_copy_on.load(Ordering::Relaxed)
    }

    pub fn turn_copy_on(&self) {
        self.is_copy_on.store(true, Ordering::Relaxed);
    }

    pub fn turn_copy_off(&self) {
        self.is_copy_on.store(false, Ordering::Relaxed);
    }

    pub fn is_mishap_over(&self) -> bool {
        self.is_mishap_over.load(Ordering::Relaxed)
    }

    pub fn end_mishap(&self) {
        self.is_mishap_over.store(true, Ordering::Relaxed);
    }

    /// Looks at who may serve what just now.
    pub fn sample(&self) {
        let original = self.site(ORIGINAL);
        let Some(ledger) = original.ledger().clone().filter(|ledger| ledger.copied().is_none()) else {
            return;
        };
        let retiring = original.probe().as_ref().map(TestProbe::superseded_leases).unwrap_or_default();
        self.history().sample(&ledger, retiring, &self.cases);
    }

    pub fn has_store(&self) -> bool {
        self.store.is_some()
    }

    /// The folder of what this worker released.
    pub fn record(&self, worker: &str) -> Option<PathBuf> {
        self.records.as_ref().map(|folder| folder.path().join(worker))
    }

    pub fn settings(&self, site: usize) -> Settings {
        let url = |folder: &TempDir| format!("file://{}", folder.path().display());
        Settings {
            data_dir: Path::new("/simulated").to_owned(),
            checkpoint_url: self.store.as_ref().filter(|_| site == ORIGINAL).map(url),
            checkpoint_schedule: Schedule::Never,
            expectations: Expectations { mtbf: Duration::ZERO, max_replay: Duration::ZERO },
            s3_plain_http: PlainHttp::Refused,
            keep_checkpoints: 2,
            heartbeat: HEARTBEAT,
            lease_ttl: LEASE_TTL,
            straggler_timeout: Duration::ZERO,
            token_ttl: Duration::from_secs(3600),
            report_delta: 1e-6,
            require_data_set: false,
            audit_log: None,
            audit_otlp: None,
            fetch_deadline: Duration::from_secs(5),
            quotas: QuotaSettings::default(),
        }
    }

    /// Returns the drain token of the worker's next process.
    pub fn new_drain(&self, worker: usize) -> CancellationToken {
        let token = CancellationToken::new();
        lock(&self.drains)[worker] = token.clone();
        token
    }

    /// Returns the stop token of the coordinator's next process.
    pub fn new_stop(&self) -> CancellationToken {
        let token = CancellationToken::new();
        lock(&self.stops).push(token.clone());
        token
    }

    /// Also of one that was killed before it had shut down.
    pub fn has_coordinator_begun_to_stop(&self) -> bool {
        lock(&self.stops).iter().any(CancellationToken::is_cancelled)
    }

    pub fn drain(&self, worker: usize) {
        lock(&self.drains)[worker].cancel();
    }

    /// The trainers' work is done.
    pub fn is_done(&self) -> bool {
        let history = self.history();
        self.cases.iter().all(|case| history.has_trained(&case.job))
    }

    /// The coordinator's machine has the disk.
    pub fn disk_if(&self, host: &str, act: impl Fn(&Disk)) {
        self.sites.iter().filter(|site| site.host == host).for_each(|site| act(&site.disk()));
    }

    /// What a host that is gone had open here.
    pub fn closed(&self, host: &str) {
        self.sites.iter().filter(|site| site.host == host).for_each(Site::closed);
    }

    pub fn grow(&self) {
        self.is_grown.store(true, Ordering::Relaxed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
