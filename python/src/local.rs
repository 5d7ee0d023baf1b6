//! The engine in this process: the kernel makes rows, the ledger of a folder says what may be released.

use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ledger::{JobCursor, JobRecord, Ledger};
use node::config::secrets::read_key_file;
use node::process::secret::SecretBytes;
use noise_kernel::{Generator, History, JobKey, Rounds, Stream};
use plan::{Coefficients, Plan};
use proto::{CoordinateRange, JobId, RowRange, ServiceError};
use rayon::{ThreadPool, ThreadPoolBuilder};
use release::binding::bind;
use release::branches;

use crate::engine::{Ahead, Announced, Asked, Engine, Job, Place, Resumed};
use crate::error::{Refused, Result};
use crate::held::Held;
use crate::making::{Filling, Maker};
use crate::sink::Sink;
use crate::wait::Stop;

/// Rows made ahead where none are asked for: as many as fit in this, at most [`MOST_AHEAD`].
const AHEAD_BYTES: u64 = 256 << 20;
const MOST_AHEAD: u64 = 8;

/// Past normals that inverse mechanisms may keep, in bytes.
const HISTORY_BYTES: u64 = 1 << 30;

/// What `inproc://` says.
pub struct Options {
    pub folder: PathBuf,
    /// `None`: plan.toml in the folder.
    pub plan: Option<PathBuf>,
    pub job: JobId,
    /// `None`: the plan's layout says it.
    pub dimension: Option<u64>,
    /// `None`: job.key in the folder, drawn from the operating system where it is not there.
    pub key_file: Option<PathBuf>,
    /// `None`: one for each processor.
    pub threads: Option<usize>,
}

pub struct Local {
    job: Job,
    plan: Plan,
    coefficients: Arc<Coefficients>,
    key: JobKey,
    ledger: Ledger,
    pool: Arc<ThreadPool>,
    filling: Filling,
    makers: Mutex<Vec<Arc<Maker>>>,
}

impl Local {
    pub fn open(options: Options) -> Result<Self> {
        let Options { folder, plan, job, dimension, key_file, threads } = options;
        let plan = Plan::from_path(plan.unwrap_or_else(|| folder.join("plan.toml")))?;
        let dimension = release::job::dimension(dimension, &plan)?;
        let made = |error| Refused::Here("store", format!("folder {}: {error}", folder.display()));
        std::fs::create_dir_all(&folder).map_err(made)?;
        let key = key(&folder, key_file)?;
        let ledger = Ledger::open(&folder.join("ledger.redb"))?;
        let plan_toml = plan.to_toml_string()?;
        let definition = release::job::define(job.clone(), &plan, plan_toml, dimension, key.commitment(), 1)?;
        ledger.create_job(&definition.record, &definition.shards)?;
        let pool = ThreadPoolBuilder::new().num_threads(threads.unwrap_or(0)).build();
        let pool = pool.map_err(|error| Refused::Here("internal", format!("threads: {error}")))?;
        let pool = Arc::new(pool);
        let ahead = (AHEAD_BYTES / dimension.saturating_mul(4)).clamp(1, MOST_AHEAD) as usize;
        Ok(Self {
            job: Job { name: job, dimension, iterations: plan.iterations() },
            coefficients: Arc::new(plan.coefficients()),
            plan,
            key,
            ledger,
            filling: Filling::start(ahead, pool.clone())?,
            pool,
            makers: Mutex::default(),
        })
    }

    fn record(&self) -> Result<JobRecord> {
        let name = &self.job.name;
        let missing = || ServiceError::NotFound { what: "job".into(), name: name.to_string() };
        Ok(self.ledger.job(name)?.ok_or_else(missing)?)
    }

    fn makers(&self) -> MutexGuard<'_, Vec<Arc<Maker>>> {
        self.makers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rows of another branch are other rows.
    fn forget_rows(&self) {
        self.makers().clear();
    }

    fn generator(&self, range: Range<u64>) -> Result<Generator> {
        let lineage = self.record()?.lineage;
        let keys = self.key.row_keys(self.job.name.as_str(), &lineage.pairs(), &self.plan.digest())?;
        let rounds = if self.plan.chacha_rounds() == 12 { Rounds::Twelve } else { Rounds::Twenty };
        let stream = Stream::of_rows(&keys, &self.coefficients, rounds);
        let n = self.plan.iterations();
        let scale = self.plan.scale();
        let generator = Generator::new(stream, self.coefficients.clone(), n, scale, range)?;
        Ok(generator.with_history(History::Auto { limit_bytes: HISTORY_BYTES })?)
    }

    /// The maker of a range: one that holds it, or a new one, in whose place those that it holds go.
    fn maker(&self, range: Range<u64>) -> Result<Arc<Maker>> {
        let holds =
            |outer: &Range<u64>, inner: &Range<u64>| outer.start <= inner.start && inner.end <= outer.end;
        let mut makers = self.makers();
        if let Some(maker) = makers.iter().find(|maker| holds(&maker.range, &range)) {
            return Ok(maker.clone());
        }
        let maker = Arc::new(Maker::new(self.generator(range)?));
        makers.retain(|other| !holds(&maker.range, &other.range));
        makers.push(maker.clone());
        Ok(maker)
    }

    /// That there is such a row and range.
    fn check(&self, row: u64, range: CoordinateRange) -> Result<()> {
        let Job { dimension, iterations, .. } = self.job;
        if range.end > dimension {
            let CoordinateRange { start, end } = range;
            return Err(ServiceError::RangeBeyondDimension { start, end, dimension }.into());
        }
        if row >= iterations {
            return Err(ServiceError::RowBeyondIterations { row, iterations }.into());
        }
        Ok(())
    }

    fn layout_digest(&self) -> Result<[u8; 32]> {
        Ok(release::job::layout_digest(&self.plan, self.job.dimension)?)
    }
}

impl Engine for Local {
    fn job(&self) -> &Job {
        &self.job
    }

    fn plan(&self, _stop: Stop) -> Result<Plan> {
        Ok(self.plan.clone())
    }

    fn place(&self, _stop: Stop) -> Result<Place> {
        let branch = self.record()?.branch;
        let next_row = self.ledger.binding_summary(&self.job.name, branch)?.next_row;
        Ok(Place { branch, next_row })
    }

    fn give(&self, asked: Asked, is_bound: bool, sink: Sink<'_>, stop: Stop) -> Result<()> {
        let Asked { branch, row, range, commitment } = asked;
        let rows = RowRange::new(row, row.saturating_add(1))?;
        self.check(row, range)?;
        let mut sink = Some(sink);
        // Made first: what can't be made binds nothing.
        let mut release = |values: &[f32]| {
            if !is_bound {
                bind(&self.ledger, &self.job.name, branch, rows, &[commitment])?;
            }
            if let Some(sink) = sink.take() {
                sink.put(values);
            }
            Ok(())
        };
        let maker = self.maker(range.as_range())?;
        if !maker.row(row, range.as_range(), &self.pool, stop, &mut release)? {
            let again = Maker::new(self.generator(range.as_range())?);
            again.row(row, range.as_range(), &self.pool, stop, release)?;
        }
        self.filling.fill(&maker);
        Ok(())
    }

    /// The rows themselves are made ahead whether they are bound or not.
    fn announce(&self, ahead: &Ahead, _spare: Option<Held>) -> Result<Announced> {
        self.check(ahead.rows.end - 1, ahead.range)?;
        // What can't be made binds nothing.
        self.maker(ahead.range.as_range())?;
        bind(&self.ledger, &self.job.name, ahead.branch, ahead.rows, &ahead.commitments)?;
        Ok(Announced::Bound)
    }

    fn prefetch(&self, rows: usize) {
        self.filling.rows.store(rows, Ordering::Relaxed);
        self.makers().iter().for_each(|maker| self.filling.fill(maker));
    }

    fn cursor(&self, next_row: u64, _stop: Stop) -> Result<Vec<u8>> {
        let layout = self.layout_digest()?;
        Ok(self.ledger.cursor(&self.job.name, layout, Some(next_row))?.to_bytes())
    }

    fn resume(&self, cursor: &[u8], replay: bool, _stop: Stop) -> Result<Resumed> {
        let cursor = JobCursor::from_bytes(cursor)?;
        let layout = self.layout_digest()?;
        let resumed = branches::resume(&self.ledger, &self.job.name, layout, &cursor, replay)?;
        self.forget_rows();
        let place = Place { branch: resumed.branch, next_row: resumed.next_row };
        Ok(Resumed { place, opened_branch: resumed.opened_branch })
    }

    fn rewind(&self, row: u64, stop: Stop) -> Result<Place> {
        let branch = self.place(stop)?.branch;
        let branch = branches::rewind(&self.ledger, &self.job.name, row, branch)?.job.branch;
        self.forget_rows();
        Ok(Place { branch, next_row: row })
    }

    fn report(&self, _stop: Stop) -> Result<String> {
        Ok(self.ledger.report(&self.job.name)?.to_string())
    }
}

/// The key that is named; else the folder's own, which is drawn when it is first needed.
fn key(folder: &Path, named: Option<PathBuf>) -> Result<JobKey> {
    let path = match named {
        Some(path) => path,
        None => {
            let path = folder.join("job.key");
            let drawn = if path.exists() { Ok(()) } else { draw_key(&path) };
            drawn.map_err(|error| Refused::Here("key", format!("key file {}: {error}", path.display())))?;
            path
        }
    };
    let secret = read_key_file(&path).map_err(|error| Refused::Here("key", error.to_string()))?;
    Ok(JobKey::from_bytes(secret.expose_secret())?)
}

/// A key appears under its name only when it is whole and durable: one that was cut short would be refused from then on.
fn draw_key(path: &Path) -> io::Result<()> {
    let key = SecretBytes::<32>::random().map_err(io::Error::other)?;
    let folder = path.parent().unwrap_or(Path::new("."));
    // Under a name of its own: what a process that ended here has left is in nobody's way.
    let mut draft = tempfile::Builder::new();
    let draft = draft.prefix("job.key.new-").permissions(Permissions::from_mode(0o400));
    let mut draft = draft.tempfile_in(folder)?;
    draft.write_all(key.expose_secret())?;
    draft.as_file().sync_all()?;
    match draft.persist_noclobber(path) {
        // Another process was faster, and its key is the folder's.
        Err(refused) if refused.error.kind() != io::ErrorKind::AlreadyExists => Err(refused.error),
        _ => File::open(folder)?.sync_all(),
    }
}
