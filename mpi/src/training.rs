//! A training rank in Rust: fetches any range of a row from the noise ranks of its launch, by the protocol that
//! `python/rustle/mpi.py` speaks too (docs/mpi.md).

mod answers;

use proto::{Commitment, CoordinateRange, ElementType, Result, ServiceError};
use rsmpi::{
    request,
    topology::Communicator,
    traits::{Destination, Source},
};

use crate::{
    Rank,
    deadlines::TimeLimit,
    handshake::Handshake,
    launch::{Launch, MpiProcess},
    wire::{self, ANY_BRANCH, CONTROL, DATA_BYTES, Get, Message, SLOTS, data_tag, reply_tag},
};
use answers::{check, of_one_branch};

const ANSWER: &str = "a noise rank, to answer";

/// A training rank that has joined its launch.
pub struct Training {
    launch: Launch,
    next_slot: u32,
}

/// The part of a request that one noise rank answers.
struct Part {
    rank: Rank,
    range: CoordinateRange,
    get: Get,
    /// True where that rank copies its part to the window.
    placed: bool,
}

impl Training {
    /// Starts MPI and joins the launch as a training rank. `window_bytes`: memory that noise ranks of this node may place
    /// rows in.
    pub fn join(limit: TimeLimit, window_bytes: u64) -> anyhow::Result<Self> {
        Self::join_started(MpiProcess::start(limit)?, window_bytes)
    }

    /// Joins the launch where MPI is started already.
    pub fn join_started(started: MpiProcess, window_bytes: u64) -> anyhow::Result<Self> {
        Ok(Self { launch: started.agree(Handshake::training(window_bytes))?, next_slot: 0 })
    }

    /// Returns the number of coordinates of the job.
    pub fn dimension(&self) -> u64 {
        self.launch.dimension()
    }

    /// Returns the number of rows of the job.
    pub fn iterations(&self) -> u64 {
        self.launch.iterations()
    }

    /// Returns the type of the job's rows: f32, or i32 where its plan is on a grid.
    pub fn element(&self) -> ElementType {
        self.launch.element()
    }

    /// Returns whether this is the first of the training ranks.
    pub fn is_first(&self) -> bool {
        self.launch.training_ranks().first() == Some(&self.launch.rank())
    }

    /// Returns the launch, for whatever else its ranks exchange.
    pub fn launch(&self) -> &Launch {
        &self.launch
    }

    /// Fetches a range of a row into `out`, which is as long as the range. The row is durably bound to `commitment` before
    /// any of it is sent. Refused for a job whose plan is on a grid: its rows are integers.
    pub fn fetch_into(
        &mut self,
        row: u64,
        range: CoordinateRange,
        commitment: Commitment,
        out: &mut [f32],
    ) -> Result<()> {
        self.fetch_while(row, range, commitment, out, || ())
    }

    /// Does the same as [`Self::fetch_into`] while `compute` runs, and returns its result.
    pub fn fetch_while<T>(
        &mut self,
        row: u64,
        range: CoordinateRange,
        commitment: Commitment,
        out: &mut [f32],
        compute: impl FnOnce() -> T,
    ) -> Result<T> {
        check_length(out.len(), range)?;
        let parts = self.parts(row, range, commitment, None, ElementType::F32)?;
        self.exchange(&parts, bytemuck::cast_slice_mut(out), compute)
    }

    /// Fetches a range of a row of a job whose plan is on a grid into `out`, as [`Self::fetch_into`] does rows of f32.
    pub fn fetch_integers_into(
        &mut self,
        row: u64,
        range: CoordinateRange,
        commitment: Commitment,
        out: &mut [i32],
    ) -> Result<()> {
        check_length(out.len(), range)?;
        let parts = self.parts(row, range, commitment, None, ElementType::I32)?;
        self.exchange(&parts, bytemuck::cast_slice_mut(out), || ())
    }

    /// Fetches a range of a row into this process's part of the window, `offset` bytes from its start, without a copy in this
    /// process where the noise ranks are on this node.
    pub fn fetch_in_window(
        &mut self,
        row: u64,
        range: CoordinateRange,
        commitment: Commitment,
        offset: u64,
    ) -> Result<&[f32]> {
        cast(self.bytes_in_window(row, range, commitment, offset, ElementType::F32)?, offset)
    }

    /// Fetches integers on a grid, as [`Self::fetch_in_window`] does rows of f32.
    pub fn fetch_integers_in_window(
        &mut self,
        row: u64,
        range: CoordinateRange,
        commitment: Commitment,
        offset: u64,
    ) -> Result<&[i32]> {
        cast(self.bytes_in_window(row, range, commitment, offset, ElementType::I32)?, offset)
    }

    fn bytes_in_window(
        &mut self,
        row: u64,
        range: CoordinateRange,
        commitment: Commitment,
        offset: u64,
        element: ElementType,
    ) -> Result<&[u8]> {
        let parts = self.parts(row, range, commitment, Some(offset), element)?;
        let sent: u64 = parts.iter().filter(|part| !part.placed).map(|part| 4 * part.range.len()).sum();
        let mut bytes = vec![0u8; sent as usize];
        self.exchange(&parts, &mut bytes, || ())?;
        let shared = self.launch.window.as_ref().ok_or_else(|| ServiceError::missing("window"))?;
        shared.window.sync();
        let own = shared.local(self.launch.rank()).ok_or_else(|| ServiceError::missing("window"))?;
        let mut rest = &bytes[..];
        for part in parts.iter().filter(|part| !part.placed) {
            let (now, later) = rest.split_at(part.range.len() as usize * 4);
            shared.window.write(own, part.get.offset, now)?;
            rest = later;
        }
        Ok(&shared.window.own()[offset as usize..][..range.len() as usize * 4])
    }

    fn parts(
        &mut self,
        row: u64,
        range: CoordinateRange,
        commitment: Commitment,
        offset: Option<u64>,
        element: ElementType,
    ) -> Result<Vec<Part>> {
        let dimension = self.dimension();
        let iterations = self.iterations();
        if range.end > dimension || range.is_empty() {
            return Err(ServiceError::RangeBeyondDimension { start: range.start, end: range.end, dimension });
        }
        if row >= iterations {
            return Err(ServiceError::RowBeyondIterations { row, iterations });
        }
        if let Some(offset) = offset {
            let shared = self.launch.window.as_ref();
            let own = shared.and_then(|shared| Some((shared, shared.local(self.launch.rank())?)));
            let (shared, own) = own.ok_or_else(|| ServiceError::missing("window"))?;
            shared.window.check(own, offset, 4 * range.len())?;
        }
        let shards = self.launch.shards.iter();
        let overlapping: Vec<_> =
            shards.filter_map(|(rank, shard)| Some((*rank, shard.intersection(&range)?))).collect();
        let part = |(rank, part): (Rank, CoordinateRange)| {
            self.next_slot = (self.next_slot + 1) % SLOTS;
            let is_local = self.launch.window.as_ref().is_some_and(|shared| shared.local(rank).is_some());
            let placed = offset.is_some() && is_local;
            let get = Get {
                slot: self.next_slot,
                in_window: placed,
                integers: element == ElementType::I32,
                row,
                start: part.start,
                end: part.end,
                offset: offset.map_or(0, |offset| offset + 4 * (part.start - range.start)),
                branch: ANY_BRANCH,
                digest: commitment.to_bytes(),
            };
            Part { rank, range: part, get, placed }
        };
        Ok(overlapping.into_iter().map(part).collect())
    }

    /// Requests all parts at once, computes, and receives: parts that are not placed go to `out`, one after the other.
    fn exchange<T>(&self, parts: &[Part], out: &mut [u8], compute: impl FnOnce() -> T) -> Result<T> {
        let Launch { all, limit, .. } = &self.launch;
        let gets: Vec<Vec<u8>> = parts.iter().map(|part| Message::Get(part.get.clone()).encode()).collect();
        let mut replies = vec![[0u8; wire::BYTES]; parts.len()];
        request::scope(|scope| {
            let mut rest = out;
            let mut in_flight = Vec::new();
            for ((part, get), reply) in parts.iter().zip(&gets).zip(&mut replies) {
                let noise = all.process_at_rank(part.rank);
                let bytes = if part.placed { 0 } else { part.range.len() as usize * 4 };
                let (now, later) = std::mem::take(&mut rest).split_at_mut(bytes);
                rest = later;
                let slot = part.get.slot;
                let data = now
                    .chunks_mut(DATA_BYTES)
                    .map(|chunk| noise.immediate_receive_into_with_tag(scope, chunk, data_tag(slot)));
                let data: Vec<_> = data.collect();
                let reply = noise.immediate_receive_into_with_tag(scope, &mut reply[..], reply_tag(slot));
                let request = noise.immediate_send_with_tag(scope, &get[..], CONTROL);
                in_flight.push((request, reply, data));
            }
            let value = compute();
            let mut answers = Vec::new();
            let mut refused = None;
            for (request, reply, data) in in_flight {
                limit.wait(ANSWER, request);
                match check(limit.wait_asleep(ANSWER, reply)) {
                    Ok(answer) => {
                        answers.push(answer);
                        data.into_iter().for_each(|chunk| {
                            limit.wait(ANSWER, chunk);
                        });
                    }
                    Err(error) => {
                        refused.get_or_insert(error);
                        // No data comes after a refusal.
                        data.into_iter().for_each(|chunk| {
                            chunk.cancel();
                            chunk.wait();
                        });
                    }
                }
            }
            match refused {
                Some(error) => Err(error),
                None => of_one_branch(&answers).map(|()| value),
            }
        })
    }

    /// Reports that this rank requests nothing more. The noise ranks end, or serve anew where their program does so.
    pub fn rest(&self) {
        let Launch { all, limit, shards, .. } = &self.launch;
        let done = Message::Done.encode();
        for (rank, _) in shards {
            request::scope(|scope| {
                let noise = all.process_at_rank(*rank);
                let sent = noise.immediate_send_with_tag(scope, &done[..], CONTROL);
                limit.wait("a noise rank, to receive that this rank is done", sent);
            });
        }
    }

    /// Reports that this rank is done, and ends MPI in this process.
    pub fn close(self) {
        self.rest();
        self.launch.end();
    }
}

fn check_length(values: usize, range: CoordinateRange) -> Result<()> {
    if values as u64 == range.len() {
        return Ok(());
    }
    let allowed = format!("{}, as the range", range.len());
    Err(ServiceError::invalid("buffer", format!("{values} values"), allowed))
}

fn cast<V: bytemuck::Pod>(bytes: &[u8], offset: u64) -> Result<&[V]> {
    bytemuck::try_cast_slice(bytes)
        .map_err(|error| ServiceError::invalid("offset", offset, error.to_string()))
}
