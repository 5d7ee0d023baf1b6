//! A training rank in Rust: asks the noise ranks of its launch for any range of a row. The same protocol as
//! `python/rustle/mpi.py` speaks (docs/mpi.md).

use mpi::{
    Rank, request,
    topology::Communicator,
    traits::{Destination, Source},
};
use proto::{Commitment, CoordinateRange, Result, ServiceError};

use super::{
    hello::Hello,
    launch::{Launch, Started},
    limit::Limit,
    message::{self, ANY_BRANCH, CONTROL, DATA_BYTES, Kind, Message, SLOTS, data_tag, reply_tag},
};

const ANSWER: &str = "a noise rank, to answer";

pub struct Training {
    launch: Launch,
    next_slot: u32,
}

/// One noise rank's part of what is asked for.
struct Part {
    rank: Rank,
    range: CoordinateRange,
    get: Message,
    /// Copied to the window by that rank.
    placed: bool,
}

impl Training {
    /// Joins the launch as a training rank. `window_bytes`: memory that noise ranks of this node may place rows in.
    pub fn join(limit: Limit, window_bytes: u64) -> anyhow::Result<Self> {
        Self::join_started(Started::start(limit)?, window_bytes)
    }

    /// The same where MPI is started already.
    pub fn join_started(started: Started, window_bytes: u64) -> anyhow::Result<Self> {
        Ok(Self { launch: started.agree(Hello::training(window_bytes))?, next_slot: 0 })
    }

    /// Of the job.
    pub fn dimension(&self) -> u64 {
        self.launch.dimension()
    }

    pub fn iterations(&self) -> u64 {
        self.launch.iterations()
    }

    /// Whether it is the first of the training ranks.
    pub fn is_first(&self) -> bool {
        self.launch.training_ranks().first() == Some(&self.launch.rank())
    }

    /// For what the ranks of a launch say to each other beside this.
    pub fn launch(&self) -> &Launch {
        &self.launch
    }

    /// A range of a row into `out`, which is as long as the range. The row is bound to `commitment`, durably, before
    /// any of it comes.
    pub fn fetch_into(
        &mut self,
        row: u64,
        range: CoordinateRange,
        commitment: Commitment,
        out: &mut [f32],
    ) -> Result<()> {
        self.fetch_while(row, range, commitment, out, || ())
    }

    /// The same, while `compute` runs.
    pub fn fetch_while<T>(
        &mut self,
        row: u64,
        range: CoordinateRange,
        commitment: Commitment,
        out: &mut [f32],
        compute: impl FnOnce() -> T,
    ) -> Result<T> {
        if out.len() as u64 != range.len() {
            let allowed = format!("{}, as the range", range.len());
            return Err(ServiceError::invalid("buffer", format!("{} values", out.len()), allowed));
        }
        let parts = self.parts(row, range, commitment, None)?;
        self.exchange(&parts, bytemuck::cast_slice_mut(out), compute)
    }

    /// A range of a row in this process's part of the window, `place` bytes from its start: without a copy here where
    /// the noise ranks are on this node.
    pub fn fetch_in_window(
        &mut self,
        row: u64,
        range: CoordinateRange,
        commitment: Commitment,
        place: u64,
    ) -> Result<&[f32]> {
        let parts = self.parts(row, range, commitment, Some(place))?;
        let from_afar: u64 = parts.iter().filter(|part| !part.placed).map(|part| 4 * part.range.len()).sum();
        let mut bytes = vec![0u8; from_afar as usize];
        self.exchange(&parts, &mut bytes, || ())?;
        let shared = self.launch.window.as_ref().ok_or_else(|| ServiceError::missing("window"))?;
        shared.window.sync();
        let own = shared.local(self.launch.rank()).ok_or_else(|| ServiceError::missing("window"))?;
        let mut rest = &bytes[..];
        for part in parts.iter().filter(|part| !part.placed) {
            let (now, later) = rest.split_at(part.range.len() as usize * 4);
            shared.window.write(own, part.get.place, now)?;
            rest = later;
        }
        let own = &shared.window.own()[place as usize..][..range.len() as usize * 4];
        bytemuck::try_cast_slice(own)
            .map_err(|error| ServiceError::invalid("place", place, error.to_string()))
    }

    fn parts(
        &mut self,
        row: u64,
        range: CoordinateRange,
        commitment: Commitment,
        place: Option<u64>,
    ) -> Result<Vec<Part>> {
        let dimension = self.dimension();
        let iterations = self.iterations();
        if range.end > dimension || range.is_empty() {
            return Err(ServiceError::RangeBeyondDimension { start: range.start, end: range.end, dimension });
        }
        if row >= iterations {
            return Err(ServiceError::RowBeyondIterations { row, iterations });
        }
        if let Some(place) = place {
            let shared = self.launch.window.as_ref();
            let own = shared.and_then(|shared| Some((shared, shared.local(self.launch.rank())?)));
            let (shared, own) = own.ok_or_else(|| ServiceError::missing("window"))?;
            shared.window.check(own, place, 4 * range.len())?;
        }
        let shards = self.launch.shards.iter();
        let overlapping: Vec<_> =
            shards.filter_map(|(rank, shard)| Some((*rank, shard.intersection(&range)?))).collect();
        let part = |(rank, part): (Rank, CoordinateRange)| {
            self.next_slot = (self.next_slot + 1) % SLOTS;
            let is_local = self.launch.window.as_ref().is_some_and(|shared| shared.local(rank).is_some());
            let placed = place.is_some() && is_local;
            let get = Message {
                slot: self.next_slot,
                in_window: placed,
                id: ANY_BRANCH,
                start: part.start,
                end: part.end,
                place: place.map_or(0, |place| place + 4 * (part.start - range.start)),
                ..Message::about(Kind::Get, row, commitment)
            };
            Part { rank, range: part, get, placed }
        };
        Ok(overlapping.into_iter().map(part).collect())
    }

    /// Asks for all parts at once, computes, and takes what comes: parts that are not placed, one after the other, to
    /// `out`.
    fn exchange<T>(&self, parts: &[Part], out: &mut [u8], compute: impl FnOnce() -> T) -> Result<T> {
        let Launch { all, limit, .. } = &self.launch;
        let gets: Vec<Vec<u8>> = parts.iter().map(|part| part.get.encode()).collect();
        let mut replies = vec![[0u8; message::BYTES]; parts.len()];
        request::scope(|scope| {
            let mut rest = out;
            let mut under_way = Vec::new();
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
                let asked = noise.immediate_send_with_tag(scope, &get[..], CONTROL);
                under_way.push((asked, reply, data));
            }
            let value = compute();
            let mut answers = Vec::new();
            let mut refused = None;
            for (asked, reply, data) in under_way {
                limit.wait(ANSWER, asked);
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

    /// Says that it asks for nothing more. The noise ranks end, or begin anew where they are told to.
    pub fn rest(&self) {
        let Launch { all, limit, shards, .. } = &self.launch;
        let done = Message::new(Kind::Done).encode();
        for (rank, _) in shards {
            request::scope(|scope| {
                let noise = all.process_at_rank(*rank);
                let said = noise.immediate_send_with_tag(scope, &done[..], CONTROL);
                limit.wait("a noise rank, to hear that this is all", said);
            });
        }
    }

    /// Asks for nothing more and ends MPI in this process.
    pub fn close(self) {
        self.rest();
        self.launch.end();
    }
}

fn check(reply: &[u8]) -> Result<Message> {
    let reply = reply.try_into().map_err(|_| ServiceError::internal("a reply of another length"))?;
    match Message::decode(reply)? {
        ready @ Message { kind: Kind::Ready, .. } => Ok(ready),
        refused @ Message { kind: Kind::Refused, .. } => Err(refused.error()),
        Message { kind, .. } => Err(ServiceError::internal(format!("a reply of kind {kind:?}"))),
    }
}

/// Error: one noise rank had turned to another branch when it answered, another not yet. Each part is bound, and all of
/// them are the row of no branch.
fn of_one_branch(answers: &[Message]) -> Result<()> {
    let branch = |answer: &&Message| answer.id;
    match (answers.iter().min_by_key(branch), answers.iter().max_by_key(branch)) {
        (Some(old), Some(new)) if old.id < new.id => Err(ServiceError::BranchSuperseded {
            job: String::from_utf8_lossy(&new.text).into_owned(),
            branch: old.id,
            current: new.id,
            from_row: new.row,
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_of_one_branch() {
        let ready = |id| Message { id, row: 3, text: b"j".to_vec(), ..Message::new(Kind::Ready) };
        assert_eq!(of_one_branch(&[ready(1), ready(1)]), Ok(()));
        let superseded =
            ServiceError::BranchSuperseded { job: "j".into(), branch: 1, current: 2, from_row: 3 };
        assert_eq!(of_one_branch(&[ready(2), ready(1), ready(2)]), Err(superseded));
    }
}
