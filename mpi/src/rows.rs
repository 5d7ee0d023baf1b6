//! Rows that training ranks request: bound, generated, and delivered.

use std::sync::Arc;

use anyhow::{Context as _, bail};
use bytes::Bytes;
use node::process::{cpu_pool::CpuPool, runtime::Runtime};
use noise_worker::shard_runner::ShardRunner;
use proto::{Commitment, CoordinateRange, Result, ServiceError, model::LeaseGrant};
use tokio::task::JoinHandle;

use crate::{
    Rank,
    bindings::{Bindings, Decision, RowRequest},
    checkpoint_rounds::CheckpointRounds,
    launch::Launch,
    root_ledger::{RootLedger, is_fatal},
    sends::Sends,
    wire::{ANY_BRANCH, Binding, DATA_BYTES, Get, Message, data_tag, error_text, reply_tag},
};

/// The data that answers a request for a row.
enum RowData {
    Bytes(Bytes),
    /// The row lies in the window already.
    Placed,
}

/// The parts of the service that serving rows needs.
pub struct Context<'c, 'a> {
    pub sends: &'c mut Sends<'a>,
    /// Present on the first noise rank.
    pub root_ledger: Option<&'c RootLedger>,
    pub rounds: &'c mut CheckpointRounds,
}

/// This rank's shard and the requests for its rows.
pub struct Rows<'a> {
    launch: &'a Launch,
    runtime: &'a Runtime,
    /// Switches branches together with `bindings`.
    runner: Arc<ShardRunner>,
    bindings: Bindings,
    /// Copies rows to windows. Separate from the pool that generates rows: one that is ready must not wait behind rows that
    /// are being generated.
    copying: CpuPool,
    generating: Vec<(RowRequest, JoinHandle<Result<RowData>>)>,
    /// The shard's grant on another branch, which this rank serves once nothing of the current one is in progress.
    switch: Option<LeaseGrant>,
}

impl<'a> Rows<'a> {
    pub fn new(launch: &'a Launch, runtime: &'a Runtime, runner: Arc<ShardRunner>, copying: CpuPool) -> Self {
        let bindings = Bindings::for_branch(runner.grant().branch());
        Self { launch, runtime, runner, bindings, copying, generating: Vec::new(), switch: None }
    }

    pub fn runner(&self) -> &Arc<ShardRunner> {
        &self.runner
    }

    /// Returns whether no row is being generated.
    pub fn is_quiet(&self) -> bool {
        self.generating.is_empty()
    }

    /// Returns whether no request is open and no switch is due.
    pub fn is_idle(&self) -> bool {
        self.bindings.is_idle() && self.is_quiet() && self.switch.is_none()
    }

    /// Takes a request.
    pub fn get(&mut self, from: Rank, get: Get, context: &mut Context<'_, 'a>) -> anyhow::Result<()> {
        match self.check(from, &get) {
            Ok((range, commitment)) => {
                let decision = self.bindings.request(RowRequest { from, get, range, commitment });
                self.settle(decision, context)
            }
            Err(error) => {
                refuse(context.sends, from, &get, error_text(&error));
                Ok(())
            }
        }
    }

    fn check(&self, from: Rank, get: &Get) -> Result<(CoordinateRange, Commitment)> {
        let range = get.range()?;
        self.launch.element().check_request(get.element(), &self.runner.grant().job)?;
        let own = self.runner.grant().range;
        let dimension = self.launch.dimension();
        let iterations = self.launch.iterations();
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
                ServiceError::invalid("window", "requested", "by a rank of the same node that lends one")
            })?;
            shared.window.check(local, get.offset, range.len() * 4)?;
        }
        Ok((range, get.commitment()?))
    }

    fn settle(&mut self, decision: Decision, context: &mut Context<'_, 'a>) -> anyhow::Result<()> {
        match decision {
            Decision::Generate(request) => self.generate(request),
            Decision::AlreadyBound(RowRequest { from, get, .. }) => {
                let grant = self.runner.grant();
                let branch = grant.lineage.branch_of(get.row);
                let error = ServiceError::AlreadyBound { job: grant.job.to_string(), branch, row: get.row };
                refuse(context.sends, from, &get, error_text(&error));
            }
            Decision::Superseded(RowRequest { from, get, .. }) => {
                let error = self.superseded(get.branch);
                refuse(context.sends, from, &get, error_text(&error));
            }
            Decision::Wait => {}
            Decision::Bind { branch, row, commitment } if context.root_ledger.is_some() => {
                if let Err(error) = self.bind(branch, row, commitment, context)? {
                    self.refuse_row(branch, row, commitment, &error_text(&error), context.sends);
                }
            }
            Decision::Bind { branch, row, commitment } => {
                let bind = Message::Bind(Binding::new(branch, row, commitment));
                context.sends.control(self.launch.root, &bind);
            }
        }
        Ok(())
    }

    /// Returns why nothing of a branch is served here.
    fn superseded(&self, branch: u64) -> ServiceError {
        let own = self.runner.grant();
        let next = self.switch.as_ref().unwrap_or(own);
        // A request for any branch would have been served from the one that is left.
        let branch = if branch == ANY_BRANCH { own.branch() } else { branch };
        let current = next.branch();
        let from_row = next.lineage.from_row();
        ServiceError::BranchSuperseded { job: next.job.to_string(), branch, current, from_row }
    }

    /// Binds a row on the first noise rank: it is durable before any other rank is notified. The outer error means that the
    /// ledger can bind no more.
    pub fn bind(
        &mut self,
        branch: u64,
        row: u64,
        commitment: Commitment,
        context: &mut Context<'_, 'a>,
    ) -> anyhow::Result<Result<()>> {
        let Some(ledger) = context.root_ledger else { bail!("a rank without the ledger was to bind a row") };
        match ledger.bind(row, branch, commitment) {
            Ok(()) => {
                let bound = Message::Bound(Binding::new(branch, row, commitment));
                context.sends.broadcast(&bound);
                context.rounds.note_bound(row);
                self.note_bound(branch, row, commitment, context)?;
                Ok(Ok(()))
            }
            Err(error) if is_fatal(&error) => Err(error.into()),
            Err(error) => Ok(Err(error.into())),
        }
    }

    /// Notes that a row is durably bound, and serves the requests that waited for it.
    pub fn note_bound(
        &mut self,
        branch: u64,
        row: u64,
        commitment: Commitment,
        context: &mut Context<'_, 'a>,
    ) -> anyhow::Result<()> {
        let decisions = self.bindings.bound(branch, row, commitment);
        decisions.into_iter().try_for_each(|decision| self.settle(decision, context))
    }

    /// Refuses the requests that waited for a binding that was refused.
    pub fn refuse_row(
        &mut self,
        branch: u64,
        row: u64,
        commitment: Commitment,
        reason: &[u8],
        sends: &mut Sends<'_>,
    ) {
        for RowRequest { from, get, .. } in self.bindings.not_bound(branch, row, commitment) {
            refuse(sends, from, &get, reason.to_vec());
        }
    }

    /// Waits for a bound row in a task of its own, which also copies it to the window where it belongs there.
    fn generate(&mut self, request: RowRequest) {
        let RowRequest { from, get, range, commitment } = &request;
        let runner = self.runner.clone();
        let row = get.row;
        let range = *range;
        let commitment = *commitment;
        let shared = self.launch.window.as_ref().filter(|_| get.in_window);
        let target =
            shared.and_then(|shared| Some((shared.window.clone(), shared.local(*from)?, get.offset)));
        let copying = self.copying.clone();
        let task = self.runtime.spawn(async move {
            let bytes = runner.part(row, commitment, range).await?;
            let Some((window, rank, at)) = target else { return Ok(RowData::Bytes(bytes)) };
            let copied = copying.run(move || window.write_parallel(rank, at, &bytes)).await;
            copied.map_err(ServiceError::internal)??;
            Ok(RowData::Placed)
        });
        self.generating.push((request, task));
    }

    /// Delivers the rows that are ready. Returns whether there were any.
    pub fn deliver(&mut self, sends: &mut Sends<'_>) -> anyhow::Result<bool> {
        let (ready, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.generating).into_iter().partition(|(_, task)| task.is_finished());
        self.generating = later;
        let any = !ready.is_empty();
        for (RowRequest { from, get, .. }, task) in ready {
            match self.runtime.block_on(task).context("a task that generates a row")? {
                Ok(data) => self.answer(from, &get, data, sends),
                Err(error) => refuse(sends, from, &get, error_text(&error)),
            }
            self.runner.row_done();
        }
        Ok(any)
    }

    /// Reports that the data is there, and of what branch, and sends it from the row's own memory where it is not in the
    /// window.
    fn answer(&self, to: Rank, get: &Get, data: RowData, sends: &mut Sends<'_>) {
        if let (RowData::Placed, Some(shared)) = (&data, &self.launch.window) {
            shared.window.sync();
        }
        // The shard has not switched since: a switch waits until all that is generated is delivered.
        let grant = self.runner.grant();
        let job = grant.job.to_string().into_bytes();
        let ready = get.reply(grant.branch(), grant.lineage.from_row(), job);
        sends.message(to, reply_tag(get.slot), &Message::Ready(ready));
        if let RowData::Bytes(bytes) = data {
            for start in (0..bytes.len()).step_by(DATA_BYTES) {
                let chunk = bytes.slice(start..bytes.len().min(start + DATA_BYTES));
                sends.data(to, data_tag(get.slot), chunk);
            }
        }
    }

    /// Begins a switch to the branch of `grant`. From here on no row of the current branch is begun. Requests that wait
    /// for a binding are refused now and not at the switch: what the first noise rank reports next is of the other branch,
    /// and must not meet them.
    pub fn begin_switch(&mut self, grant: LeaseGrant, context: &mut Context<'_, 'a>) -> anyhow::Result<()> {
        self.switch = Some(grant);
        self.bindings.leave().into_iter().try_for_each(|decision| self.settle(decision, context))
    }

    /// Serves the other branch, once nothing of the current one is in progress. Returns whether it switched.
    pub fn finish_switch(&mut self, context: &mut Context<'_, 'a>) -> anyhow::Result<bool> {
        let Some(grant) = self.switch.take_if(|_| self.generating.is_empty()) else { return Ok(false) };
        self.runner = self.runtime.block_on(self.runner.on_branch(grant))?;
        self.bindings = Bindings::for_branch(self.runner.grant().branch());
        if context.root_ledger.is_none() {
            context.sends.control(self.launch.root, &Message::BranchServed);
        }
        Ok(true)
    }
}

fn refuse(sends: &mut Sends<'_>, to: Rank, get: &Get, reason: Vec<u8>) {
    sends.message(to, reply_tag(get.slot), &get.refusal(reason));
}
