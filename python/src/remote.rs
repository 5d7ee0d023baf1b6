//! The engine over a cluster: its coordinator binds rows, its workers serve them.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use client::{Client, Connections, Fetch, FetchRequest, Region};
use node::net::dial::DialOptions;
use node::process::runtime::Runtime;
use plan::Grid;
use proto::{Commitment, CoordinateRange, ElementType, JobId, RowRange, ServiceError, pb};
use tokio::time::Instant;

use crate::ending;
use crate::engine::{
    Ending, Engine, Job, Position, Reservation, ReserveOutcome, Resumed, RowRequest, grid_of,
};
use crate::error::{Refused, Result};
use crate::row_buffer::{RowBuffer, words};
use crate::sink::{Out, Sink};
use crate::wait::{Stop, wait};

/// The δ of the coordinator's own ε in its report, which is not used here.
const REPORT_DELTA: f64 = 1e-6;

/// Threads of the client, which moves bytes and calls no Python.
const THREADS: usize = 2;

/// The settings of a `grpc://`, `grpcs://`, `unix://` or `shm://` URL.
pub struct Options {
    /// The coordinator's URL, in the form that `client` takes.
    pub coordinator: String,
    /// Credentials.
    pub dialing: DialOptions,
    /// The job's name.
    pub job: JobId,
    /// How long a fetch waits for workers that are away.
    pub timeout: Duration,
    /// Whether workers of this host write to memory that is lent to them.
    pub lend: bool,
}

/// An engine whose rows a cluster produces.
pub struct Remote {
    job: Job,
    /// The grid of the plan's rows; `None` for rows of floats.
    grid: Option<Grid>,
    client: Client,
    timeout: Duration,
    lend: bool,
    /// Lent memory of one row each, by range.
    regions: Mutex<Vec<Region>>,
    scratch: Mutex<Vec<f32>>,
    runtime: Option<Runtime>,
}

impl Remote {
    /// Connects to the coordinator and finds the job.
    ///
    /// # Errors
    /// No coordinator answers, or it has no such job.
    pub fn open(options: Options, stop: Stop) -> Result<Self> {
        let Options { coordinator, dialing, job, timeout, lend } = options;
        let runtime = Runtime::with_threads(THREADS)
            .map_err(|error| Refused::Here("internal", format!("no threads: {error}")))?;
        let entered = runtime.enter();
        let client = Client::with_connections(&coordinator, Connections::dialing(dialing))?;
        drop(entered);
        let jobs = client.jobs();
        let found = wait(&runtime, stop, jobs.get(&job)).map_err(|error| unreached(error, &coordinator))?;
        let job = Job { name: job, dimension: found.dimension, iterations: found.iterations };
        let grid = match wait(&runtime, stop, client.routing(&job.name))?.element {
            ElementType::I32 => grid_of(&wait(&runtime, stop, jobs.report(&job.name, REPORT_DELTA))?)?,
            ElementType::F32 | ElementType::Bf16 => None,
        };
        let regions = Mutex::default();
        let scratch = Mutex::default();
        Ok(Self { job, grid, client, timeout, lend, regions, scratch, runtime: Some(runtime) })
    }

    fn wait<T>(&self, stop: Stop, future: impl Future<Output = proto::Result<T>>) -> Result<T> {
        match &self.runtime {
            Some(runtime) => wait(runtime, stop, future),
            None => Err(Refused::Here("closed", "the session is closed".into())),
        }
    }

    fn request(
        &self,
        (branch, rows): (u64, RowRange),
        range: CoordinateRange,
        commitments: Vec<Commitment>,
    ) -> FetchRequest {
        let job = self.job.name.clone();
        let deadline = Instant::now() + self.timeout;
        FetchRequest { job, branch, rows, range, commitments, deadline }
    }

    fn element(&self) -> ElementType {
        self.grid.map_or(ElementType::F32, |_| ElementType::I32)
    }

    /// Fetches into words: `f32`, or the bits of `i32` under a plan on a grid.
    async fn fetch_words(&self, fetch: Fetch<'_>, out: &mut [f32]) -> proto::Result<()> {
        match self.grid {
            None => fetch.into_slice(out).await,
            Some(_) => fetch.into_integers(bytemuck::cast_slice_mut(out)).await,
        }
    }

    fn regions(&self) -> MutexGuard<'_, Vec<Region>> {
        self.regions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fetches a row through memory that is lent to workers of this host.
    fn fetch_shared(&self, request: FetchRequest, sink: Sink<'_>, stop: Stop) -> Result<()> {
        let mut regions = self.regions();
        let range = request.range;
        let at = match regions.iter().position(|region| region.layout().range == range) {
            Some(at) => at,
            None => {
                regions.push(self.client.lend(range, 1, self.element())?);
                regions.len() - 1
            }
        };
        let region = &mut regions[at];
        self.wait(stop, self.client.fetch(request).into_region(region, 0))?;
        sink.put(words(region, 0)?);
        Ok(())
    }
}

/// Names the address where no coordinator answers.
fn unreached(error: Refused, coordinator: &str) -> Refused {
    match error {
        Refused::Service(ServiceError::Unavailable { what }) => {
            let what = format!("the coordinator at {coordinator}, which does not answer there ({what}),");
            Refused::Service(ServiceError::Unavailable { what })
        }
        error => error,
    }
}

impl Engine for Remote {
    fn job(&self) -> &Job {
        &self.job
    }

    fn grid(&self) -> Option<Grid> {
        self.grid
    }

    fn position(&self, stop: Stop) -> Result<Position> {
        let jobs = self.client.jobs();
        let job = self.wait(stop, jobs.get(&self.job.name))?;
        Ok(Position { branch: job.branch, next_row: job.next_row })
    }

    /// Binds in any case, so that the coordinator itself checks what is bound.
    fn fetch(&self, request: RowRequest, _is_bound: bool, sink: Sink<'_>, stop: Stop) -> Result<()> {
        let RowRequest { branch, row, range, commitment } = request;
        let rows = RowRange::new(row, row.saturating_add(1))?;
        let request = self.request((branch, rows), range, vec![commitment]);
        if self.lend {
            return self.fetch_shared(request, sink, stop);
        }
        if let Out::Copy(out) = sink.out {
            return self.wait(stop, self.client.fetch(request).into_slice(out));
        }
        let mut scratch = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        scratch.resize(range.len() as usize, 0.0);
        self.wait(stop, self.fetch_words(self.client.fetch(request), &mut scratch))?;
        sink.put(&scratch);
        Ok(())
    }

    fn reserve(&self, rows: &Reservation, spare: Option<RowBuffer>) -> Result<ReserveOutcome> {
        let Reservation { branch, rows, range, ref commitments } = *rows;
        let request = self.request((branch, rows), range, commitments.clone());
        let never_stop = || Ok(());
        if self.lend {
            let fits = |region: &Region| {
                region.layout().range == range && region.layout().slots as u64 == rows.len()
            };
            let mut region = match spare {
                Some(RowBuffer::Shared(region)) if fits(&region) => region,
                other => {
                    // Freed first, so that both are never in memory.
                    drop(other);
                    self.client.lend(range, rows.len() as u32, self.element())?
                }
            };
            self.wait(never_stop, self.client.fetch(request).into_region(&mut region, 0))?;
            return Ok(ReserveOutcome::Fetched(RowBuffer::Shared(region)));
        }
        let mut values = match spare {
            Some(RowBuffer::Owned(values, _)) => values,
            _ => Vec::new(),
        };
        let width = range.len() as usize;
        let count = rows.len() as usize * width;
        let more = count.saturating_sub(values.len());
        let no_memory = |error| Refused::Here("internal", format!("{count} reserved values: {error}"));
        values.try_reserve_exact(more).map_err(no_memory)?;
        values.resize(count, 0.0);
        self.wait(never_stop, self.fetch_words(self.client.fetch(request), &mut values))?;
        Ok(ReserveOutcome::Fetched(RowBuffer::Owned(values, width)))
    }

    /// Does nothing: workers decide how many rows to produce ahead.
    fn prefetch(&self, _rows: usize) {}

    fn cursor(&self, next_row: u64, stop: Stop) -> Result<Vec<u8>> {
        let jobs = self.client.jobs();
        self.wait(stop, jobs.cursor(&self.job.name, Some(next_row)))
    }

    fn resume(&self, cursor: &[u8], replay: bool, stop: Stop) -> Result<Resumed> {
        let jobs = self.client.jobs();
        let resumed = self.wait(stop, jobs.resume(&self.job.name, cursor.to_vec(), replay))?;
        let branch = named(resumed.job)?.branch;
        let position = Position { branch, next_row: resumed.next_row };
        Ok(Resumed { position, opened_branch: resumed.opened_branch })
    }

    fn rewind(&self, row: u64, stop: Stop) -> Result<Position> {
        let branch = self.position(stop)?.branch;
        let jobs = self.client.jobs();
        let job = self.wait(stop, jobs.rewind(&self.job.name, row, branch))?;
        Ok(Position { branch: job.branch, next_row: row })
    }

    /// Destroying a job deletes its checkpoints; the files of the key are its operator's.
    fn finish(&self, destroy_key: bool, stop: Stop) -> Result<Ending> {
        let jobs = self.client.jobs();
        if !destroy_key {
            self.wait(stop, jobs.finish(&self.job.name))?;
            return Ok(ending::of_finished(&self.job.name));
        }
        let destroyed = self.wait(stop, jobs.destroy(&self.job.name))?;
        Ok(Ending { statement: destroyed.message, is_key_left: true })
    }

    fn report(&self, stop: Stop) -> Result<String> {
        let jobs = self.client.jobs();
        self.wait(stop, jobs.report(&self.job.name, REPORT_DELTA))
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        // Without waiting: a thread may still run a fetch that Ctrl-C ended.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn named(job: Option<pb::Job>) -> Result<pb::Job> {
    job.ok_or_else(|| Refused::Here("internal", "the coordinator's answer names no job".into()))
}
