//! What training ranks ask the first noise rank about the job, and the change of branch that may come of it: every noise
//! rank has turned before the asker hears the branch's number, and asks of the branch before are refused from then on.

use std::collections::{HashSet, VecDeque};

use anyhow::{Context, bail};
use bytes::Bytes;
use mpi::{Rank, request, topology::Communicator, traits::Source as _};
use prost::Message as _;
use proto::{Result, ServiceError, model::LeaseGrant, pb};

use super::{
    bindings::Bindings,
    message::{ANY_BRANCH, CONTROL, GRANT, Kind, Message, data_tag, reply_tag},
    place::Resumed,
    serve::Service,
    window::Sending,
};

#[derive(Default)]
pub struct Asks {
    waiting: VecDeque<(Rank, Message)>,
    /// Answered once these ranks have turned.
    turned_by: Option<(Rank, Message, HashSet<Rank>)>,
}

/// A shard on another branch.
pub struct Turning(LeaseGrant);

impl Asks {
    pub fn take(&mut self, from: Rank, ask: Message) {
        self.waiting.push_back((from, ask));
    }

    /// The rank serves the new branch.
    pub fn turned(&mut self, rank: Rank) {
        if let Some((.., ranks)) = &mut self.turned_by {
            ranks.remove(&rank);
        }
    }

    /// Whether a rank may still serve the branch before.
    pub fn is_turning(&self) -> bool {
        self.turned_by.is_some()
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.turned_by.is_none()
    }
}

impl Service<'_> {
    /// Of the first noise rank: answers the next ask. One that goes back waits until no row and no checkpoint of the
    /// branch before is under way.
    pub(super) fn ask(&mut self) -> anyhow::Result<bool> {
        if let Some((to, answer, _)) = self.asks.turned_by.take_if(|(.., ranks)| ranks.is_empty()) {
            self.send(to, reply_tag(answer.slot), answer);
            return Ok(true);
        }
        let is_quiet = self.making.is_empty() && self.rounds.is_idle();
        let may_turn = |ask: &Message| matches!(ask.kind, Kind::Resume | Kind::Rewind);
        let next = self.asks.waiting.front();
        if self.asks.turned_by.is_some() || next.is_none_or(|(_, ask)| may_turn(ask) && !is_quiet) {
            return Ok(false);
        }
        let Some((from, ask)) = self.asks.waiting.pop_front() else { return Ok(false) };
        match self.answered(&ask) {
            Ok((answer, Some(true))) => self.turn_all(from, answer)?,
            Ok((answer, _)) if ask.kind == Kind::Report => self.send_report(from, answer),
            Ok((answer, _)) => self.send(from, reply_tag(ask.slot), answer),
            // A ledger that failed ends the launch when it is to bind next.
            Err(error) => self.refuse(from, &ask, &error),
        }
        Ok(true)
    }

    /// The answer; of one that goes on, whether on a new branch.
    fn answered(&mut self, ask: &Message) -> Result<(Message, Option<bool>)> {
        let keeper = self.keeper.as_mut().ok_or_else(|| ServiceError::missing("ledger"))?;
        let ready = Message { kind: Kind::Ready, text: Vec::new(), ..ask.clone() };
        let (row, text, opened) = match ask.kind {
            Kind::Place => (keeper.next_row()?, keeper.job().to_string().into_bytes(), None),
            Kind::Cursor => (ask.row, keeper.cursor(ask.row)?, None),
            Kind::Report => (ask.row, keeper.report()?.into_bytes(), None),
            _ => {
                let resumed = match ask.kind {
                    Kind::Resume => keeper.resume(&ask.text, ask.marked)?,
                    _ => keeper.rewind(ask.row)?,
                };
                let Resumed { next_row, opened_branch } = resumed;
                (next_row, Vec::new(), Some(opened_branch))
            }
        };
        let marked = opened.unwrap_or_default();
        Ok((Message { row, id: keeper.branch(), text, marked, ..ready }, opened))
    }

    /// Longer than a message: it follows as data.
    fn send_report(&mut self, to: Rank, answer: Message) {
        let report = Bytes::from(answer.text);
        let ready = Message { end: report.len() as u64, text: Vec::new(), ..answer };
        let slot = ready.slot;
        self.send(to, reply_tag(slot), ready);
        self.sends.push(Sending::begin(&self.launch.all, to, data_tag(slot), report));
    }

    /// The ledger has the branch: all noise ranks turn to it, then `to` is answered.
    fn turn_all(&mut self, to: Rank, answer: Message) -> anyhow::Result<()> {
        let Some(keeper) = &self.keeper else { bail!("a rank without the ledger was asked to go back") };
        let grants = keeper.grants(answer.row)?.grants;
        self.rounds.turned(answer.row);
        let mut others = HashSet::new();
        for ((rank, _), grant) in self.launch.shards.iter().zip(grants) {
            if *rank == self.launch.root {
                self.leave(grant.try_into()?)?;
                continue;
            }
            let grant = Bytes::from(grant.encode_to_vec());
            let branch = Message { id: answer.id, end: grant.len() as u64, ..Message::new(Kind::Branch) };
            self.send(*rank, CONTROL, branch);
            self.sends.push(Sending::begin(&self.launch.all, *rank, GRANT, grant));
            others.insert(*rank);
        }
        self.turn()?;
        self.asks.turned_by = Some((to, answer, others));
        Ok(())
    }

    /// Of the other noise ranks: the job is on another branch.
    pub(super) fn is_told(&mut self, message: &Message) -> anyhow::Result<()> {
        let mut bytes = vec![0u8; usize::try_from(message.end)?];
        request::scope(|scope| {
            let root = self.launch.all.process_at_rank(self.launch.root);
            let coming = root.immediate_receive_into_with_tag(scope, &mut bytes[..], GRANT);
            self.launch.limit.wait("the first noise rank, to say what this one serves", coming);
        });
        let grant = pb::LeaseGrant::decode(&bytes[..]).context("what the first noise rank grants")?;
        self.leave(grant.try_into()?)
    }

    /// From here on no row of the branch before is begun. Who waits to have one bound is refused now and not at the turn:
    /// what the first noise rank says next is of the other branch, and must not meet them.
    fn leave(&mut self, grant: LeaseGrant) -> anyhow::Result<()> {
        self.turning = Some(Turning(grant));
        self.bindings.leave().into_iter().try_for_each(|fate| self.settle(fate))
    }

    /// Serves another branch, once nothing of the one before is under way.
    pub(super) fn turn(&mut self) -> anyhow::Result<bool> {
        let Some(Turning(grant)) = self.turning.take_if(|_| self.making.is_empty()) else { return Ok(false) };
        self.owner = self.runtime.block_on(self.owner.turned(grant))?;
        self.bindings = Bindings::of_branch(self.owner.grant().branch());
        if self.keeper.is_none() {
            self.send(self.launch.root, CONTROL, Message::new(Kind::Turned));
        }
        Ok(true)
    }

    /// Why nothing of a branch is served here.
    pub(super) fn superseded(&self, branch: u64) -> ServiceError {
        let own = self.owner.grant();
        let next = self.turning.as_ref().map_or(own, |Turning(grant)| grant);
        // Who asked for any would have been served of the one that is left.
        let branch = if branch == ANY_BRANCH { own.branch() } else { branch };
        let current = next.branch();
        let from_row = next.lineage.from_row();
        ServiceError::BranchSuperseded { job: next.job.to_string(), branch, current, from_row }
    }
}
