//! A noise rank beside training ranks: answers their requests until all of them are done.
//!
//! One loop on MPI's thread receives messages, moves sends forward and delivers rows; generating, replaying, copying and
//! writing happen on other threads. Nothing in the loop waits for one training rank. The loop owns the parts and lends them
//! to each other: `rows` and `control` do not know of it.

use std::{collections::HashSet, sync::Arc};

use anyhow::{Context as _, bail};
use node::process::cpu_pool::CpuPool;
use node::process::runtime::Runtime;
use noise_worker::shard_runner::ShardRunner;
use prost::Message as _;
use proto::pb;
use rsmpi::{request, topology::Communicator, traits::Source};

use crate::{
    Rank,
    checkpoint_rounds::CheckpointRounds,
    control::ControlRequests,
    deadlines::IdleBackoff,
    handshake::Role,
    launch::Launch,
    root_ledger::RootLedger,
    rows::{Context, Rows},
    sends::Sends,
    wire::{self, Binding, CONTROL, GRANT, Message, error_text},
};

/// A noise rank that serves training ranks.
pub struct Service<'a> {
    launch: &'a Launch,
    runtime: &'a Runtime,
    rows: Rows<'a>,
    sends: Sends<'a>,
    rounds: CheckpointRounds,
    /// Present on the first noise rank.
    root_ledger: Option<RootLedger>,
    /// Requests about the job, on the first noise rank.
    control: ControlRequests,
    ending: Ending,
}

/// The progress of the launch's end.
#[derive(Default)]
struct Ending {
    /// Training ranks that will request nothing more.
    done: HashSet<Rank>,
    /// Noise ranks that serve no requests any more, as the first noise rank knows.
    idle: HashSet<Rank>,
    /// True once this rank has reported itself idle.
    is_reported: bool,
    is_closed: bool,
}

impl<'a> Service<'a> {
    /// Serves the shard of `runner`. `checkpoint_every`: rows between checkpoints; 0 for one at the end only.
    pub(crate) fn new(
        launch: &'a Launch,
        runtime: &'a Runtime,
        runner: Arc<ShardRunner>,
        copying: CpuPool,
        root_ledger: Option<RootLedger>,
        checkpoint_every: u64,
    ) -> Self {
        Self {
            launch,
            runtime,
            rows: Rows::new(launch, runtime, runner, copying),
            sends: Sends::new(launch),
            rounds: CheckpointRounds::new(checkpoint_every),
            root_ledger,
            control: ControlRequests::default(),
            ending: Ending::default(),
        }
    }

    /// Serves until every training rank has sent that it is done. May be called again where they continue after that.
    /// Fails where the ledger can bind no more, or a rank sends what is not its to send.
    pub fn run(&mut self) -> anyhow::Result<()> {
        self.ending = Ending::default();
        self.rounds.begin();
        let mut backoff = IdleBackoff::new(self.launch.limit);
        while !self.ending.is_closed {
            let happened = [
                self.receive()?,
                self.rows.deliver(&mut self.sends)?,
                self.sends.progress(),
                self.finish_switch()?,
                self.answer_control()?,
                self.checkpoint()?,
                self.close(),
            ];
            if happened.contains(&true) {
                backoff.reset();
            } else {
                backoff.idle(!self.sends.is_empty());
            }
        }
        Ok(())
    }

    /// Returns the number of rows that are generated beyond the highest requested; measurements wait for them.
    pub fn rows_ahead(&self) -> u64 {
        self.rows.runner().rows_ahead()
    }

    fn parts(&mut self) -> (&mut Rows<'a>, Context<'_, 'a>) {
        let Self { rows, sends, root_ledger, rounds, .. } = self;
        (rows, Context { sends, root_ledger: root_ledger.as_ref(), rounds })
    }

    fn receive(&mut self) -> anyhow::Result<bool> {
        let mut any = false;
        while let Some((coming, status)) =
            self.launch.all.any_process().immediate_matched_probe_with_tag(CONTROL)
        {
            let from = status.source_rank();
            let mut bytes = [0u8; wire::BYTES];
            coming.matched_receive_into(&mut bytes[..]);
            let message = Message::decode(&bytes).with_context(|| format!("a message of rank {from}"))?;
            self.handle(from, message)?;
            any = true;
        }
        Ok(any)
    }

    fn handle(&mut self, from: Rank, message: Message) -> anyhow::Result<()> {
        let is_from_root = from == self.launch.root;
        let is_root = self.root_ledger.is_some();
        let sender = self.launch.handshakes[from as usize].role;
        let (rows, mut context) = self.parts();
        match (sender, message) {
            (Role::Training, Message::Get(get)) => rows.get(from, get, &mut context)?,
            (Role::Training, Message::Done) => {
                self.ending.done.insert(from);
            }
            (Role::Training, Message::Job(request)) if is_root => self.control.push(from, request),
            (Role::Noise, Message::Branch { grant_bytes, .. }) if is_from_root => {
                self.receive_switch(grant_bytes)?;
            }
            (Role::Noise, Message::BranchServed) if is_root => self.control.note_branch_served(from),
            (Role::Noise, Message::Bind(binding)) if is_root => {
                let Binding { branch, row, .. } = binding;
                if let Err(error) = rows.bind(branch, row, binding.commitment()?, &mut context)? {
                    let refusal = Message::NotBound { binding, reason: error_text(&error) };
                    context.sends.control(from, &refusal);
                }
            }
            (Role::Noise, Message::Bound(binding)) if is_from_root => {
                rows.note_bound(binding.branch, binding.row, binding.commitment()?, &mut context)?;
            }
            (Role::Noise, Message::NotBound { binding, reason }) if is_from_root => {
                let commitment = binding.commitment()?;
                rows.refuse_row(binding.branch, binding.row, commitment, &reason, context.sends);
            }
            (Role::Noise, Message::Checkpoint { id }) if is_from_root => {
                self.rounds.write_own(self.runtime, self.rows.runner(), id);
            }
            (Role::Noise, piece @ (Message::Piece(_) | Message::PieceFailed { .. })) if is_root => {
                self.rounds.take(from, &piece);
            }
            (Role::Noise, Message::Idle) if is_root => {
                self.ending.idle.insert(from);
            }
            (Role::Noise, Message::Close) if is_from_root => self.ending.is_closed = true,
            (_, message) => {
                let kind = message.kind();
                bail!("rank {from}, a {sender:?} rank, sent {kind:?}, which is not its to send")
            }
        }
        Ok(())
    }

    /// Receives the grant on another branch, and begins the switch to it.
    fn receive_switch(&mut self, grant_bytes: u64) -> anyhow::Result<()> {
        let mut bytes = vec![0u8; usize::try_from(grant_bytes)?];
        request::scope(|scope| {
            let root = self.launch.all.process_at_rank(self.launch.root);
            let coming = root.immediate_receive_into_with_tag(scope, &mut bytes[..], GRANT);
            self.launch.limit.wait("the first noise rank, to send this one's grant", coming);
        });
        let grant = pb::LeaseGrant::decode(&bytes[..]).context("the grant of the first noise rank")?;
        let (rows, mut context) = self.parts();
        rows.begin_switch(grant.try_into()?, &mut context)
    }

    fn finish_switch(&mut self) -> anyhow::Result<bool> {
        let (rows, mut context) = self.parts();
        rows.finish_switch(&mut context)
    }

    fn answer_control(&mut self) -> anyhow::Result<bool> {
        let Self { launch, rows, sends, root_ledger, rounds, control, .. } = self;
        let Some(ledger) = root_ledger else { return Ok(false) };
        control.answer_next(launch, ledger, rows, &mut Context { sends, root_ledger: None, rounds })
    }

    fn checkpoint(&mut self) -> anyhow::Result<bool> {
        let mut happened = false;
        if let Some(written) = self.rounds.own_written(self.runtime)? {
            happened = true;
            if self.root_ledger.is_some() {
                self.rounds.take(self.launch.root, &written)
            } else {
                self.sends.control(self.launch.root, &written)
            }
        }
        let Some(ledger) = &mut self.root_ledger else { return Ok(happened) };
        self.rounds.publish(self.runtime, ledger, &self.launch.shards);
        // A rank that has not switched yet would write its state of the branch before.
        if !self.control.is_switching()
            && let Some(id) = self.rounds.due(ledger)
        {
            self.sends.broadcast(&Message::Checkpoint { id });
            self.rounds.write_own(self.runtime, self.rows.runner(), id);
            happened = true;
        }
        Ok(happened)
    }

    /// Reports this rank idle when no training rank requests anything more, and closes when all noise ranks are idle: then
    /// no message is in flight to any of them, and the last checkpoint is written.
    fn close(&mut self) -> bool {
        let is_idle = self.rows.is_idle() && self.sends.is_empty() && self.control.is_empty();
        let all_done = self.launch.training_ranks().iter().all(|rank| self.ending.done.contains(rank));
        if !is_idle || !all_done {
            return false;
        }
        if !self.ending.is_reported {
            self.ending.is_reported = true;
            if self.root_ledger.is_some() {
                self.ending.idle.insert(self.launch.root);
            } else {
                self.sends.control(self.launch.root, &Message::Idle);
            }
            return true;
        }
        let all_idle = self.ending.idle.len() >= self.launch.shards.len();
        if self.root_ledger.is_none() || !all_idle || !self.rounds.is_over() {
            return false;
        }
        self.sends.broadcast(&Message::Close);
        let mut backoff = IdleBackoff::new(self.launch.limit);
        while !self.sends.is_empty() {
            self.sends.progress();
            backoff.busy("the noise ranks, to receive that the launch ends");
        }
        self.ending.is_closed = true;
        true
    }
}
