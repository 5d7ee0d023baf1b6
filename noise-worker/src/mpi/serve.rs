//! A noise rank beside training ranks: answers what they ask for until all of them are done.
//!
//! One loop on MPI's thread takes messages, moves sends on and hands rows out; making, replaying, copying and writing
//! happen on the runtime's threads. Nothing in it waits for one training rank.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use anyhow::{Context, bail};
use bytes::Bytes;
use mpi::{Rank, topology::Communicator, traits::Source};
use proto::{Commitment, CoordinateRange, Result, ServiceError};
use tokio::{runtime::Runtime, task::JoinHandle};

use super::{
    asks::{Asks, Turning},
    hello::Role,
    keeper::{Keeper, is_fatal},
    launch::Launch,
    limit::Pace,
    message::{self, CONTROL, DATA_BYTES, Kind, Message, data_tag, reply_tag},
    owner::Owner,
    rounds::Rounds,
    window::Sending,
};

pub struct Service<'a> {
    pub(super) launch: &'a Launch,
    pub(super) runtime: &'a Runtime,
    pub(super) owner: Arc<Owner>,
    /// On the first noise rank.
    pub(super) keeper: Option<Keeper>,
    /// Rows that are durably bound, as far as this rank has heard.
    pub(super) bound: BTreeMap<u64, Commitment>,
    /// Requests whose rows are not yet bound.
    pub(super) unbound: Vec<Asked>,
    pub(super) making: Vec<(Asked, JoinHandle<Result<Made>>)>,
    pub(super) sends: Vec<Sending>,
    /// Training ranks that will ask for nothing more.
    done: HashSet<Rank>,
    /// Of the first noise rank: ranks that nobody asks any more.
    left: HashSet<Rank>,
    has_left: bool,
    closed: bool,
    pub(super) rounds: Rounds,
    /// What training ranks ask about the job; on the first noise rank.
    pub(super) asks: Asks,
    /// Another branch that this rank is to serve.
    pub(super) turning: Option<Turning>,
}

pub struct Asked {
    pub from: Rank,
    pub get: Message,
    range: CoordinateRange,
    commitment: Commitment,
}

/// What answers a request.
pub enum Made {
    Data(Bytes),
    /// In the window already.
    Placed,
}

impl<'a> Service<'a> {
    /// `checkpoint_every`: rows; 0 for a checkpoint at the end alone.
    pub fn new(
        launch: &'a Launch,
        runtime: &'a Runtime,
        owner: Arc<Owner>,
        keeper: Option<Keeper>,
        checkpoint_every: u64,
    ) -> Self {
        Self {
            launch,
            runtime,
            owner,
            keeper,
            bound: BTreeMap::new(),
            unbound: Vec::new(),
            making: Vec::new(),
            sends: Vec::new(),
            done: HashSet::new(),
            left: HashSet::new(),
            has_left: false,
            closed: false,
            rounds: Rounds::new(checkpoint_every),
            asks: Asks::default(),
            turning: None,
        }
    }

    /// Until every training rank has said that it is done. May be called again where they go on after that.
    pub fn run(&mut self) -> anyhow::Result<()> {
        (self.has_left, self.closed) = (false, false);
        self.done.clear();
        self.left.clear();
        self.rounds.begin();
        let mut pace = Pace::new(self.launch.limit);
        while !self.closed {
            let happened = [
                self.receive()?,
                self.hand_out()?,
                self.move_sends(),
                self.turn()?,
                self.ask()?,
                self.checkpoint()?,
                self.close(),
            ];
            if happened.contains(&true) {
                pace.reset();
            } else {
                pace.idle(!self.sends.is_empty());
            }
        }
        Ok(())
    }

    fn receive(&mut self) -> anyhow::Result<bool> {
        let mut any = false;
        while let Some((coming, status)) =
            self.launch.all.any_process().immediate_matched_probe_with_tag(CONTROL)
        {
            let (from, mut bytes) = (status.source_rank(), [0u8; message::BYTES]);
            coming.matched_receive_into(&mut bytes[..]);
            let message = Message::decode(&bytes).with_context(|| format!("a message of rank {from}"))?;
            self.take(from, message)?;
            any = true;
        }
        Ok(any)
    }

    fn take(&mut self, from: Rank, message: Message) -> anyhow::Result<()> {
        use Kind::*;
        let sender = self.launch.hellos[from as usize].role;
        match (sender, message.kind) {
            (Role::Training, Get) => self.get(from, message)?,
            (Role::Training, Done) => {
                self.done.insert(from);
            }
            (Role::Training, Place | Cursor | Resume | Rewind | Report) if self.keeper.is_some() => {
                self.asks.take(from, message);
            }
            (Role::Noise, Branch) if from == self.launch.root => self.is_told(&message)?,
            (Role::Noise, Turned) if self.keeper.is_some() => self.asks.turned(from),
            (Role::Noise, Bind) if self.keeper.is_some() => {
                let commitment = message.commitment()?;
                if let Err(error) = self.bind(message.row, message.id, commitment)? {
                    let refusal = Message::about(NotBound, message.row, commitment).saying(&error);
                    self.send(from, CONTROL, refusal);
                }
            }
            (Role::Noise, Bound) if from == self.launch.root => {
                self.is_bound(message.row, message.commitment()?)
            }
            (Role::Noise, NotBound) if from == self.launch.root => {
                self.refuse_row(message.row, message.commitment()?, &message.text);
            }
            (Role::Noise, Checkpoint) if from == self.launch.root => {
                self.rounds.write_own(self.runtime, &self.owner, message.id);
            }
            (Role::Noise, Piece | NoPiece) if self.keeper.is_some() => self.rounds.take(from, &message),
            (Role::Noise, Leave) if self.keeper.is_some() => {
                self.left.insert(from);
            }
            (Role::Noise, Close) if from == self.launch.root => self.closed = true,
            (_, kind) => bail!("rank {from}, a {sender:?} rank, sent {kind:?}, which is not its to send"),
        }
        Ok(())
    }

    fn get(&mut self, from: Rank, get: Message) -> anyhow::Result<()> {
        let (range, commitment) = match self.check(from, &get) {
            Ok(checked) => checked,
            Err(error) => {
                self.refuse(from, &get, &error);
                return Ok(());
            }
        };
        let row = get.row;
        let asked = Asked { from, get, range, commitment };
        match self.bound.get(&row) {
            Some(bound) if *bound == commitment => self.make(asked),
            Some(_) => {
                let error = self.already_bound(row);
                self.refuse(from, &asked.get, &error);
            }
            None => {
                let same = |other: &Asked| other.get.row == row && other.commitment == commitment;
                let is_asked_for = self.unbound.iter().any(same);
                self.unbound.push(asked);
                let branch = self.owner.grant().branch();
                if self.keeper.is_none() && !is_asked_for {
                    let bind = Message { id: branch, ..Message::about(Kind::Bind, row, commitment) };
                    self.send(self.launch.root, CONTROL, bind);
                } else if self.keeper.is_some()
                    && let Err(error) = self.bind(row, branch, commitment)?
                {
                    self.refuse_row(row, commitment, &Message::new(Kind::Refused).saying(&error).text);
                }
            }
        }
        Ok(())
    }

    fn already_bound(&self, row: u64) -> ServiceError {
        let grant = self.owner.grant();
        let branch = grant.lineage.branch_of(row);
        ServiceError::AlreadyBound { job: grant.job.to_string(), branch, row }
    }

    fn check(&self, from: Rank, get: &Message) -> Result<(CoordinateRange, Commitment)> {
        let (range, own) = (get.range()?, self.owner.grant().range);
        if ![message::ANY_BRANCH, self.owner.grant().branch()].contains(&get.id) || self.turning.is_some() {
            return Err(self.superseded(get.id));
        }
        let (dimension, iterations) = (self.launch.dimension(), self.launch.iterations());
        if range.end > dimension {
            return Err(ServiceError::RangeBeyondDimension { start: range.start, end: range.end, dimension });
        }
        if !own.contains(&range) {
            return Err(ServiceError::invalid("range", range, format!("within this rank's {own}")));
        }
        if get.row >= iterations {
            return Err(ServiceError::RowBeyondIterations { row: get.row, iterations });
        }
        if get.in_window {
            let shared = self.launch.window.as_ref();
            let local = shared.and_then(|shared| Some((shared, shared.local(from)?)));
            let (shared, local) = local.ok_or_else(|| {
                ServiceError::invalid("window", "asked for", "by a rank of the same node that lends one")
            })?;
            shared.window.check(local, get.place, range.len() * 4)?;
        }
        Ok((range, get.commitment()?))
    }

    /// On the first noise rank: durable before anyone hears of it. Outer error: the ledger can bind no more.
    fn bind(&mut self, row: u64, branch: u64, commitment: Commitment) -> anyhow::Result<Result<()>> {
        let Some(keeper) = &self.keeper else { bail!("a rank without the ledger was asked to bind") };
        match keeper.bind(row, branch, commitment) {
            Ok(()) => {
                self.tell_others(&Message::about(Kind::Bound, row, commitment));
                self.rounds.bound(row);
                self.is_bound(row, commitment);
                Ok(Ok(()))
            }
            Err(error) if is_fatal(&error) => Err(error.into()),
            Err(error) => Ok(Err(error.into())),
        }
    }

    fn is_bound(&mut self, row: u64, commitment: Commitment) {
        self.bound.insert(row, commitment);
        let (now, later) =
            std::mem::take(&mut self.unbound).into_iter().partition(|asked: &Asked| asked.get.row == row);
        self.unbound = later;
        for asked in now {
            match asked.commitment == commitment {
                true => self.make(asked),
                false => {
                    let error = self.already_bound(row);
                    self.refuse(asked.from, &asked.get, &error);
                }
            }
        }
    }

    fn refuse_row(&mut self, row: u64, commitment: Commitment, text: &[u8]) {
        let is_refused = |asked: &Asked| asked.get.row == row && asked.commitment == commitment;
        let (refused, later) = std::mem::take(&mut self.unbound).into_iter().partition(is_refused);
        self.unbound = later;
        for Asked { from, get, .. } in refused {
            self.send(from, reply_tag(get.slot), Message { kind: Kind::Refused, text: text.to_vec(), ..get });
        }
    }

    pub(super) fn refuse(&mut self, to: Rank, get: &Message, error: &ServiceError) {
        let refusal = Message { kind: Kind::Refused, ..get.clone() }.saying(error);
        self.send(to, reply_tag(get.slot), refusal);
    }

    /// The row is bound: it is waited for, and where it is to lie in the window, copied there, beside this loop.
    fn make(&mut self, asked: Asked) {
        let Asked { from, get, range, commitment } = &asked;
        let (owner, row, range, commitment) = (self.owner.clone(), get.row, *range, *commitment);
        let shared = self.launch.window.as_ref().filter(|_| get.in_window);
        let place = shared.and_then(|shared| Some((shared.window.clone(), shared.local(*from)?, get.place)));
        let task = self.runtime.spawn(async move {
            let bytes = owner.part(row, commitment, range).await?;
            let Some((window, rank, at)) = place else { return Ok(Made::Data(bytes)) };
            let copied = owner.limits().pool.run(move || window.place(rank, at, &bytes)).await;
            copied.map_err(ServiceError::internal)??;
            Ok(Made::Placed)
        });
        self.making.push((asked, task));
    }

    fn hand_out(&mut self) -> anyhow::Result<bool> {
        let (ready, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.making).into_iter().partition(|(_, task)| task.is_finished());
        self.making = later;
        let any = !ready.is_empty();
        for (Asked { from, get, .. }, task) in ready {
            match self.runtime.block_on(task).context("a task that makes a row")? {
                Ok(made) => self.answer(from, &get, made),
                Err(error) => self.refuse(from, &get, &error),
            }
            self.owner.delivered();
        }
        Ok(any)
    }

    /// Says that the data is there, and sends it from the row's own memory where it is not in the window.
    pub(super) fn answer(&mut self, to: Rank, get: &Message, made: Made) {
        if let (Made::Placed, Some(shared)) = (&made, &self.launch.window) {
            shared.window.sync();
        }
        self.send(to, reply_tag(get.slot), Message { kind: Kind::Ready, ..get.clone() });
        if let Made::Data(bytes) = made {
            for start in (0..bytes.len()).step_by(DATA_BYTES) {
                let chunk = bytes.slice(start..bytes.len().min(start + DATA_BYTES));
                self.sends.push(Sending::begin(&self.launch.all, to, data_tag(get.slot), chunk));
            }
        }
    }

    pub(super) fn send(&mut self, to: Rank, tag: mpi::Tag, message: Message) {
        self.sends.push(Sending::begin(&self.launch.all, to, tag, message.encode().into()));
    }

    /// From the first noise rank to all others.
    pub(super) fn tell_others(&mut self, message: &Message) {
        let launch = self.launch;
        for (rank, _) in launch.shards.iter().filter(|(rank, _)| *rank != launch.root) {
            self.send(*rank, CONTROL, message.clone());
        }
    }

    fn move_sends(&mut self) -> bool {
        let before = self.sends.len();
        self.sends.retain_mut(|sending| !sending.is_done());
        self.sends.len() < before
    }

    fn checkpoint(&mut self) -> anyhow::Result<bool> {
        let mut happened = false;
        if let Some(written) = self.rounds.own_written(self.runtime)? {
            happened = true;
            match self.keeper.is_some() {
                true => self.rounds.take(self.launch.root, &written),
                false => self.send(self.launch.root, CONTROL, written),
            }
        }
        let Some(keeper) = &mut self.keeper else { return Ok(happened) };
        self.rounds.publish(self.runtime, keeper, &self.launch.shards);
        if let Some(id) = self.rounds.due(keeper) {
            self.begin_checkpoint(id);
            happened = true;
        }
        Ok(happened)
    }

    fn begin_checkpoint(&mut self, id: u64) {
        self.tell_others(&Message { id, ..Message::new(Kind::Checkpoint) });
        self.rounds.write_own(self.runtime, &self.owner, id);
    }

    /// Leaves when nobody asks this rank for anything more, and closes when all have left: then no message is under way
    /// to anyone, and the last checkpoint is written.
    fn close(&mut self) -> bool {
        let idle = self.unbound.is_empty()
            && self.making.is_empty()
            && self.sends.is_empty()
            && self.asks.is_empty()
            && self.turning.is_none();
        let all_done = self.launch.training_ranks().iter().all(|rank| self.done.contains(rank));
        if !idle || !all_done {
            return false;
        }
        if !self.has_left {
            self.has_left = true;
            if self.keeper.is_some() {
                self.left.insert(self.launch.root);
            } else {
                self.send(self.launch.root, CONTROL, Message::new(Kind::Leave));
            }
            return true;
        }
        if self.keeper.is_none() || self.left.len() < self.launch.shards.len() || !self.rounds.is_over() {
            return false;
        }
        self.tell_others(&Message::new(Kind::Close));
        let mut pace = Pace::new(self.launch.limit);
        while !self.sends.is_empty() {
            self.move_sends();
            pace.busy("the noise ranks, to hear that this is the end");
        }
        self.closed = true;
        true
    }

    /// Rows made beyond what was asked for: measurements wait for them.
    pub fn rows_ahead(&self) -> u64 {
        self.owner.rows_ahead()
    }
}
