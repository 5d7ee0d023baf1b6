//! The engine in this process: the kernel produces rows, and a ledger in a folder guards their release.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ledger::{AnchorPlace, JobCursor, JobRecord, JobState, Ledger};
use noise_kernel::grid::GridGenerator;
use noise_kernel::{
    Backend, Generator, History, JobKey, NoiseContext, Recheck, Rounds, RowGenerator, Stream,
};
use plan::Plan;
use plan::grid::{Grid, GridPlan};
use proto::model::BudgetedAccount;
use proto::{CoordinateRange, JobId, RowRange, ServiceError, SweepId};
use rayon::{ThreadPool, ThreadPoolBuilder};
use release::binding::bind;
use release::branches;

use crate::ending;
use crate::engine::{Ending, Engine, Job, Position, Reservation, ReserveOutcome, Resumed, RowRequest};
use crate::error::{Refused, Result};
use crate::opening::{self, Numbers, nonce};
use crate::plan_file;
use crate::producer::{PrefetchThread, RowProducer};
use crate::row_buffer::RowBuffer;
use crate::run_folder;
use crate::sink::Sink;
use crate::wait::Stop;

/// Memory for rows produced ahead unless `prefetch` sets their number.
const AHEAD_BYTES: u64 = 256 << 20;
/// The most rows produced ahead unless `prefetch` sets their number.
const MAX_AHEAD: u64 = 8;

/// Memory for the past normals that inverse mechanisms keep.
const HISTORY_BYTES: u64 = 1 << 30;

/// Of so many noise blocks, one is made again on another instruction set, as by a worker.
const RECHECK_ONE_IN: u64 = 1024;

/// The settings of an `inproc://` URL.
pub struct Options {
    /// The folder of the ledger.
    pub folder: PathBuf,
    /// The file of the plan; `None` for plan.toml in the folder.
    pub plan: Option<PathBuf>,
    /// The job's name.
    pub job: JobId,
    /// Coordinates of the vector; `None` for those of the plan's layout.
    pub dimension: Option<u64>,
    /// The file of the key; `None` for job.key in the folder, which is created where it is missing.
    pub key_file: Option<PathBuf>,
    /// Threads that produce rows; `None` for one per processor.
    pub threads: Option<usize>,
    /// Whether a copy of a ledger is adopted, and continues with fresh noise.
    pub adopt: bool,
    /// The data set that pays for the job, and the sweep that the job is a run of.
    pub budgeted: Option<(BudgetedAccount, Option<SweepId>)>,
}

/// An engine whose rows this process produces itself.
pub struct InProcess {
    job: Job,
    plan: Plan,
    rows: Numbers,
    key: JobKey,
    /// The key's file where it is the folder's own.
    own_key: Option<PathBuf>,
    ledger: Ledger,
    pool: Arc<ThreadPool>,
    recheck: Arc<Recheck>,
    prefetcher: PrefetchThread,
    producers: Mutex<Vec<Arc<RowProducer>>>,
}

impl InProcess {
    /// Opens the ledger of the folder and creates the job there unless it exists.
    ///
    /// # Errors
    /// A plan, key or ledger that cannot be used, or a job of another definition.
    pub fn open(options: Options) -> Result<Self> {
        let Options { folder, plan, job, dimension, key_file, threads, adopt, budgeted } = options;
        opening::check_every_core()?;
        let plan = plan_file::read(&plan.unwrap_or_else(|| folder.join("plan.toml")))?;
        let dimension = release::job::dimension(dimension, &plan)?;
        let rows = Numbers::of(&plan)?;
        let pool = ThreadPoolBuilder::new().num_threads(threads.unwrap_or(0)).build();
        let pool = Arc::new(pool.map_err(|error| Refused::Here("internal", format!("threads: {error}")))?);
        run_folder::check_named_key(&folder, key_file.as_deref())?;
        // All that is given was judged: from here on there is a folder, and then a ledger.
        let not_created = |error| Refused::Here("store", format!("folder {}: {error}", folder.display()));
        std::fs::create_dir_all(&folder).map_err(not_created)?;
        // Before a key is drawn, which would be a trace of an earlier ledger.
        let ledger = run_folder::open_ledger(&folder, nonce()?)?;
        let key = run_folder::key(&folder, key_file.as_deref(), &job, &ledger)?;
        let key_path = run_folder::key_path(&folder, key_file.as_deref());
        let ledger = opening::taken_up(ledger, &AnchorPlace::of_key(&key_path, &key.commitment()), adopt)?;
        let plan_toml = plan.to_toml_string()?;
        let definition =
            release::job::define(job.clone(), &plan, plan_toml, dimension, key.commitment(), 1, nonce()?)?;
        opening::create_job(&ledger, &plan, &definition, budgeted)?;
        let ahead = (AHEAD_BYTES / dimension.saturating_mul(4)).clamp(1, MAX_AHEAD) as usize;
        Ok(Self {
            job: Job { name: job, dimension, iterations: plan.iterations() },
            rows,
            plan,
            key,
            own_key: key_file.is_none().then_some(key_path),
            ledger,
            prefetcher: PrefetchThread::start(ahead, pool.clone())?,
            pool,
            recheck: Arc::new(Recheck::new(Backend::Auto, RECHECK_ONE_IN)?),
            producers: Mutex::default(),
        })
    }

    fn record(&self) -> Result<JobRecord> {
        let name = &self.job.name;
        let missing = || ServiceError::NotFound { what: "job".into(), name: name.to_string() };
        Ok(self.ledger.job(name)?.ok_or_else(missing)?)
    }

    fn producers(&self) -> MutexGuard<'_, Vec<Arc<RowProducer>>> {
        self.producers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Discards the rows produced ahead: another branch has other rows.
    fn discard_rows(&self) {
        self.producers().clear();
    }

    fn generator(&self, range: Range<u64>) -> Result<RowGenerator> {
        let record = self.record()?;
        let context = NoiseContext::new(&self.plan, record.dimension, *record.nonce.as_bytes())?;
        let keys = self.key.row_keys(&context, &record.lineage.nonces())?;
        let rounds = if self.plan.chacha_rounds() == 12 { Rounds::Twelve } else { Rounds::Twenty };
        match &self.rows {
            Numbers::Floats(coefficients) => {
                let stream = Stream::of_rows(&keys, coefficients, rounds);
                let n = self.plan.iterations();
                let generator = Generator::new(stream, coefficients.clone(), n, self.plan.scale(), range)?;
                let history = History::Auto { limit_bytes: HISTORY_BYTES };
                Ok(RowGenerator::Floats(generator.with_history(history)?))
            }
            Numbers::Integers(mechanism) => {
                let stream = mechanism.stream(&keys, rounds);
                Ok(RowGenerator::Integers(GridGenerator::new(stream, mechanism.clone(), range)?))
            }
        }
    }

    /// Returns a producer whose range contains `range`: an existing one, or a new one that replaces those it contains.
    fn producer(&self, range: Range<u64>) -> Result<Arc<RowProducer>> {
        let contains =
            |outer: &Range<u64>, inner: &Range<u64>| outer.start <= inner.start && inner.end <= outer.end;
        let mut producers = self.producers();
        if let Some(producer) = producers.iter().find(|producer| contains(&producer.range, &range)) {
            return Ok(producer.clone());
        }
        let producer = Arc::new(RowProducer::new(self.generator(range)?, self.recheck.clone()));
        producers.retain(|other| !contains(&producer.range, &other.range));
        producers.push(producer.clone());
        Ok(producer)
    }

    /// Checks that the job has this row and range.
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

    /// Returns the file of a key that nothing else needs.
    fn key_to_destroy(&self) -> Result<&Path> {
        let refused = |allowed: String| Err(Refused::invalid("destroy_key", true, allowed));
        let Some(path) = &self.own_key else {
            return refused(
                "false with key_file, which other runs may use: delete that file once none does".into(),
            );
        };
        let is_other =
            |record: &JobRecord| record.job != self.job.name && record.state != JobState::Destroyed;
        if let Some(other) = self.ledger.jobs()?.into_iter().find(is_other) {
            return refused(format!("false while job {} of this folder needs the key", other.job));
        }
        ending::check_one_name(path)?;
        Ok(path)
    }

    fn layout_digest(&self) -> Result<[u8; 32]> {
        Ok(release::job::layout_digest(&self.plan, self.job.dimension)?)
    }
}

impl Engine for InProcess {
    fn job(&self) -> &Job {
        &self.job
    }

    fn plan(&self, _stop: Stop) -> Result<Plan> {
        Ok(self.plan.clone())
    }

    fn grid(&self) -> Option<Grid> {
        self.plan.on_grid().map(GridPlan::grid)
    }

    fn position(&self, _stop: Stop) -> Result<Position> {
        let branch = self.record()?.branch;
        let next_row = self.ledger.binding_summary(&self.job.name, branch)?.next_row;
        Ok(Position { branch, next_row })
    }

    fn fetch(&self, request: RowRequest, is_bound: bool, sink: Sink<'_>, stop: Stop) -> Result<()> {
        let RowRequest { branch, row, range, commitment } = request;
        let rows = RowRange::new(row, row.saturating_add(1))?;
        self.check(row, range)?;
        let mut sink = Some(sink);
        // Produced first: a row that cannot be produced must not be bound.
        let mut release = |values: &[f32]| {
            if !is_bound {
                bind(&self.ledger, &self.job.name, branch, rows, &[commitment])?;
            }
            if let Some(sink) = sink.take() {
                sink.put(values);
            }
            Ok(())
        };
        let producer = self.producer(range.as_range())?;
        if !producer.row(row, range.as_range(), &self.pool, stop, &mut release)? {
            let from_row_0 = RowProducer::new(self.generator(range.as_range())?, self.recheck.clone());
            from_row_0.row(row, range.as_range(), &self.pool, stop, release)?;
        }
        self.prefetcher.fill(&producer);
        Ok(())
    }

    /// Binds the rows and fetches none: they are produced ahead whether they are bound or not.
    fn reserve(&self, rows: &Reservation, _spare: Option<RowBuffer>) -> Result<ReserveOutcome> {
        self.check(rows.rows.end - 1, rows.range)?;
        // Rows that cannot be produced must not be bound.
        self.producer(rows.range.as_range())?;
        bind(&self.ledger, &self.job.name, rows.branch, rows.rows, &rows.commitments)?;
        Ok(ReserveOutcome::Bound)
    }

    fn prefetch(&self, rows: usize) {
        self.prefetcher.ahead.store(rows, Ordering::Relaxed);
        self.producers().iter().for_each(|producer| self.prefetcher.fill(producer));
    }

    fn cursor(&self, next_row: u64, _stop: Stop) -> Result<Vec<u8>> {
        let layout = self.layout_digest()?;
        Ok(self.ledger.cursor(&self.job.name, layout, Some(next_row))?.to_bytes())
    }

    fn resume(&self, cursor: &[u8], replay: bool, _stop: Stop) -> Result<Resumed> {
        let cursor = JobCursor::from_bytes(cursor)?;
        let layout = self.layout_digest()?;
        let resumed = branches::resume(&self.ledger, &self.job.name, layout, &cursor, replay, nonce()?)?;
        self.discard_rows();
        let position = Position { branch: resumed.branch, next_row: resumed.next_row };
        Ok(Resumed { position, opened_branch: resumed.opened_branch })
    }

    fn rewind(&self, row: u64, stop: Stop) -> Result<Position> {
        let branch = self.position(stop)?.branch;
        let branch = branches::rewind(&self.ledger, &self.job.name, row, branch, nonce()?)?.job.branch;
        self.discard_rows();
        Ok(Position { branch, next_row: row })
    }

    fn finish(&self, destroy_key: bool, _stop: Stop) -> Result<Ending> {
        let record = self.record()?;
        if !destroy_key && record.state != JobState::Destroyed {
            self.ledger.end_job(&self.job.name, JobState::Finished, false)?;
            return Ok(ending::of_finished(&self.job.name));
        }
        let key = self.key_to_destroy()?;
        self.ledger.end_job(&self.job.name, JobState::Destroyed, false)?;
        self.discard_rows();
        ending::destroy_key(key)?;
        Ok(ending::of_destroyed(&self.job.name, key))
    }

    fn report(&self, _stop: Stop) -> Result<String> {
        Ok(self.ledger.report(&self.job.name)?.to_string())
    }
}
