//! Requests of training ranks to the first noise rank about the job, and the switch of branch that may follow: every noise
//! rank serves the new branch before the requester receives its number, and requests for the branch before are refused
//! from then on.

use std::collections::{HashSet, VecDeque};

use bytes::Bytes;
use prost::Message as _;
use proto::Result;
use release::branches::Resumed;

use crate::{
    Rank,
    launch::Launch,
    root_ledger::RootLedger,
    rows::{Context, Rows},
    sends::Sends,
    wire::{GRANT, JobAction, JobRequest, Message, Reply, data_tag, reply_tag},
};

/// The requests that wait, and the switch of branch in progress.
#[derive(Default)]
pub struct ControlRequests {
    waiting: VecDeque<(Rank, JobRequest)>,
    switch: Option<BranchSwitch>,
}

/// A switch of all noise ranks to another branch.
struct BranchSwitch {
    requester: Rank,
    /// The answer that is sent once no rank is outstanding.
    answer: Reply,
    /// Noise ranks that may still serve the branch before.
    outstanding: HashSet<Rank>,
}

impl ControlRequests {
    pub fn push(&mut self, from: Rank, request: JobRequest) {
        self.waiting.push_back((from, request));
    }

    /// Notes that the rank serves the new branch.
    pub fn note_branch_served(&mut self, rank: Rank) {
        if let Some(switch) = &mut self.switch {
            switch.outstanding.remove(&rank);
        }
    }

    /// Returns whether a rank may still serve the branch before.
    pub fn is_switching(&self) -> bool {
        self.switch.is_some()
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.switch.is_none()
    }

    /// Answers the next request on the first noise rank. One that may switch branches waits until no row and no checkpoint
    /// of the branch before is in progress. Returns whether anything happened.
    pub fn answer_next<'a>(
        &mut self,
        launch: &'a Launch,
        ledger: &mut RootLedger,
        rows: &mut Rows<'a>,
        context: &mut Context<'_, 'a>,
    ) -> anyhow::Result<bool> {
        if let Some(switch) = self.switch.take_if(|switch| switch.outstanding.is_empty()) {
            send_ready(context.sends, switch.requester, switch.answer);
            return Ok(true);
        }
        if self.switch.is_some() {
            return Ok(false);
        }
        let is_quiet = rows.is_quiet() && context.rounds.is_idle();
        let is_ready = |(_, request): &(Rank, JobRequest)| is_quiet || !may_switch(&request.action);
        let Some((from, request)) = self.waiting.pop_front_if(|next| is_ready(next)) else {
            return Ok(false);
        };
        match answer(&request, ledger) {
            Ok((answer, opened_branch)) if opened_branch => {
                self.switch_all(from, answer, launch, ledger, rows, context)?;
            }
            Ok((answer, _)) if request.action == JobAction::Report => {
                send_report(context.sends, from, answer)
            }
            Ok((answer, _)) => send_ready(context.sends, from, answer),
            // A ledger that failed ends the launch at the next binding.
            Err(error) => {
                context.sends.message(from, reply_tag(request.slot), &request.refusal(&error));
            }
        }
        Ok(true)
    }

    /// Switches all noise ranks to the branch that the ledger has opened; then `to` is answered.
    fn switch_all<'a>(
        &mut self,
        to: Rank,
        answer: Reply,
        launch: &'a Launch,
        ledger: &RootLedger,
        rows: &mut Rows<'a>,
        context: &mut Context<'_, 'a>,
    ) -> anyhow::Result<()> {
        let grants = ledger.grants(answer.row)?.grants;
        // The first noise rank has the ledger while it switches, as it has while it binds.
        let mut context =
            Context { sends: &mut *context.sends, root_ledger: Some(ledger), rounds: &mut *context.rounds };
        context.rounds.restart_at(answer.row);
        let mut outstanding = HashSet::new();
        for ((rank, _), grant) in launch.shards.iter().zip(grants) {
            if *rank == launch.root {
                rows.begin_switch(grant.try_into()?, &mut context)?;
                continue;
            }
            let grant = Bytes::from(grant.encode_to_vec());
            let branch = Message::Branch { branch: answer.branch, grant_bytes: grant.len() as u64 };
            context.sends.control(*rank, &branch);
            context.sends.data(*rank, GRANT, grant);
            outstanding.insert(*rank);
        }
        rows.finish_switch(&mut context)?;
        self.switch = Some(BranchSwitch { requester: to, answer, outstanding });
        Ok(())
    }
}

fn may_switch(action: &JobAction) -> bool {
    matches!(action, JobAction::Resume { .. } | JobAction::Rewind { .. })
}

/// Returns the answer, and whether a branch was opened.
fn answer(request: &JobRequest, ledger: &mut RootLedger) -> Result<(Reply, bool)> {
    let (row, text, opened_branch) = match &request.action {
        JobAction::Status => (ledger.next_row()?, ledger.job().to_string().into_bytes(), false),
        JobAction::Cursor { row } => (*row, ledger.cursor(*row)?, false),
        JobAction::Report => (0, ledger.report()?.into_bytes(), false),
        JobAction::Resume { cursor, replay } => {
            let Resumed { next_row, opened_branch, .. } = ledger.resume(cursor, *replay)?;
            (next_row, Vec::new(), opened_branch)
        }
        JobAction::Rewind { row } => {
            let Resumed { next_row, opened_branch, .. } = ledger.rewind(*row)?;
            (next_row, Vec::new(), opened_branch)
        }
    };
    let reply = request.reply(ledger.branch(), row, text);
    Ok((Reply { flag: opened_branch, ..reply }, opened_branch))
}

fn send_ready(sends: &mut Sends<'_>, to: Rank, answer: Reply) {
    sends.message(to, reply_tag(answer.slot), &Message::Ready(answer));
}

/// Sends a report, which is longer than a message, as data behind the answer.
fn send_report(sends: &mut Sends<'_>, to: Rank, answer: Reply) {
    let report = Bytes::from(answer.text);
    let slot = answer.slot;
    let ready = Reply { end: report.len() as u64, text: Vec::new(), ..answer };
    send_ready(sends, to, ready);
    sends.data(to, data_tag(slot), report);
}
