//! A noise rank beside training ranks: answers what they ask for until all of them are done.
//!
//! One loop on MPI's thread takes messages, moves sends on and hands rows out (`rows`); making, replaying, copying and
//! writing happen on other threads. Nothing in it waits for one training rank.

use std::{collections::HashSet, sync::Arc};

use anyhow::{Context, bail};
use mpi::{Rank, topology::Communicator, traits::Source};
use node::cpu_pool::CpuPool;
use node::runtime::Runtime;
use proto::Result;
use tokio::task::JoinHandle;

use super::{
    asks::{Asks, Turning},
    bindings::{Asked, Bindings},
    hello::Role,
    keeper::Keeper,
    launch::Launch,
    limit::Pace,
    message::{self, CONTROL, Kind, Message},
    owner::Owner,
    rounds::Rounds,
    rows::Made,
    window::Sending,
};

pub struct Service<'a> {
    pub(super) launch: &'a Launch,
    pub(super) runtime: &'a Runtime,
    /// Turns together with `bindings`.
    pub(super) owner: Arc<Owner>,
    /// Copies rows to windows. Apart from the pool that makes rows: one that is ready must not wait behind rows being made.
    pub(super) copying: CpuPool,
    /// On the first noise rank.
    pub(super) keeper: Option<Keeper>,
    pub(super) bindings: Bindings,
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

impl<'a> Service<'a> {
    /// `checkpoint_every`: rows; 0 for a checkpoint at the end alone.
    pub fn new(
        launch: &'a Launch,
        runtime: &'a Runtime,
        owner: Arc<Owner>,
        copying: CpuPool,
        keeper: Option<Keeper>,
        checkpoint_every: u64,
    ) -> Self {
        let bindings = Bindings::of_branch(owner.grant().branch());
        Self {
            launch,
            runtime,
            owner,
            copying,
            keeper,
            bindings,
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
            let from = status.source_rank();
            let mut bytes = [0u8; message::BYTES];
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
                if let Err(error) = self.bind(message.id, message.row, message.commitment()?)? {
                    let refusal = Message { kind: NotBound, ..message }.saying(&error);
                    self.send(from, CONTROL, refusal);
                }
            }
            (Role::Noise, Bound) if from == self.launch.root => {
                self.is_bound(message.id, message.row, message.commitment()?)?;
            }
            (Role::Noise, NotBound) if from == self.launch.root => {
                self.refuse_row(message.id, message.row, message.commitment()?, &message.text);
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
            if self.keeper.is_some() {
                self.rounds.take(self.launch.root, &written)
            } else {
                self.send(self.launch.root, CONTROL, written)
            }
        }
        let Some(keeper) = &mut self.keeper else { return Ok(happened) };
        self.rounds.publish(self.runtime, keeper, &self.launch.shards);
        // A rank that has not turned yet would write its state of the branch before.
        if !self.asks.is_turning()
            && let Some(id) = self.rounds.due(keeper)
        {
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
        let idle = self.bindings.is_idle()
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
