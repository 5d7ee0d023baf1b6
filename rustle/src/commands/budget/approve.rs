//! `rustle budget approve`: a person's consent to a change that another person makes.

use std::time::Duration;

use clap::{Args, Subcommand};
use client::Client;
use node::process::timestamp::rfc3339;
use proto::pb::approve_change_request::Change;
use proto::{JobId, pb};
use serde_json::{Value, json};

use super::grant::GrantArgs;
use super::share::ShareArgs;
use crate::access::CoordinatorArg;
use crate::output;
use crate::streams;
use crate::values;

#[derive(Subcommand, Clone, Debug)]
pub enum ApproveCommand {
    /// Approve exactly this budget, as another person then grants it (budget grant)
    Grant {
        #[command(flatten)]
        grant: GrantArgs,
        #[command(flatten)]
        valid: ValidArg,
    },
    /// Approve exactly this share, as another person then sets it (budget share)
    Share {
        #[command(flatten)]
        share: ShareArgs,
        #[command(flatten)]
        valid: ValidArg,
    },
    /// Approve exactly this rewind, as another person, or that person's trainer, then makes it (job rewind, job resume)
    Rewind(RewindApproval),
}

#[derive(Args, Clone, Debug)]
pub struct RewindApproval {
    #[command(flatten)]
    coordinator: CoordinatorArg,
    /// Name of the job
    #[arg(long)]
    job: JobId,
    /// First row with fresh noise
    #[arg(long, value_name = "T")]
    to_row: u64,
    /// Number of the job's current branch
    #[arg(long, value_name = "B")]
    expected_branch: u64,
    /// Branch whose earlier rows are kept, as a resume may name [default: the current one]
    #[arg(long, value_name = "B")]
    parent: Option<u64>,
    #[command(flatten)]
    valid: ValidArg,
}

#[derive(Args, Clone, Debug)]
pub struct ValidArg {
    /// Time until the approval ends, unless it is used before: 1s to 7d
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = values::duration_in_days)]
    valid: Duration,
}

impl ApproveCommand {
    pub fn coordinator(&self) -> &CoordinatorArg {
        match self {
            Self::Grant { grant, .. } => grant.coordinator(),
            Self::Share { share, .. } => share.coordinator(),
            Self::Rewind(rewind) => &rewind.coordinator,
        }
    }

    /// Approves the change, and returns the data set.
    pub async fn run(&self, client: &Client) -> anyhow::Result<pb::DataSet> {
        let budgets = client.budgets();
        let (change, valid) = match self {
            Self::Grant { grant, valid } => (Change::GrantBudget(grant.request(&budgets).await?), valid),
            Self::Share { share, valid } => (Change::SetShare(share.request(&budgets).await?), valid),
            Self::Rewind(rewind) => (Change::OpenBranch(rewind.request()), &rewind.valid),
        };
        // What is too long is refused by name.
        let valid_s = u32::try_from(valid.valid.as_secs()).unwrap_or(u32::MAX);
        Ok(budgets.approve(pb::ApproveChangeRequest { change: Some(change), valid_s }).await?)
    }
}

impl RewindApproval {
    fn request(&self) -> pb::OpenBranchRequest {
        pb::OpenBranchRequest {
            job: self.job.to_string(),
            from_row: self.to_row,
            expected_branch: self.expected_branch,
            parent: self.parent,
        }
    }
}

/// Returns the rule of a data set as JSON shows it, null for none, and the approvals that wait.
pub fn json_of(data_set: &pb::DataSet) -> [Value; 2] {
    let rule = data_set.approval_rule.map(|rule| json!({ "free_rewinds": rule.free_rewinds }));
    let pending = |approval: &pb::PendingApproval| {
        json!({
            "change": approval.change,
            "approver": approval.approver,
            "until": rfc3339(values::time_of(approval.until_ms)),
        })
    };
    [rule.unwrap_or_default(), data_set.pending_approvals.iter().map(pending).collect()]
}

/// Prints the rule of a data set, where it has one, and the approvals that wait.
pub fn print(data_set: &pb::DataSet) -> anyhow::Result<()> {
    let Some(pb::ApprovalRule { free_rewinds }) = data_set.approval_rule else { return Ok(()) };
    streams::line(format!(
        "Raising the budget or a share takes two persons, as do rewinds beyond {free_rewinds} of a job."
    ))?;
    if data_set.pending_approvals.is_empty() {
        return Ok(());
    }
    let mut table = output::table(&["approved", "by", "until"]);
    for pb::PendingApproval { change, approver, until_ms } in &data_set.pending_approvals {
        table.add_row([change, approver, &rfc3339(values::time_of(*until_ms))]);
    }
    streams::line(table)
}
