//! `rustle budget`: data sets, and what of their privacy budgets is spent, reserved and left.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use client::Client;
use proto::model::{NeighbouringRelation, PrivacyBudget, PrivacyUnit};
use proto::{DataSetId, pb};
use serde_json::{Value, json};

use self::approve::ApproveCommand;
use self::block::BlockCommand;
use self::grant::GrantArgs;
use self::report::ReportArgs;
use self::share::ShareArgs;
use super::online;
use crate::access::CoordinatorArg;
use crate::figures::{rounded_down, rounded_up};
use crate::output::{self, Answer, Format, Word, bad_use};
use crate::streams;

mod approve;
mod block;
mod grant;
mod report;
mod share;

#[derive(Args, Clone, Debug)]
pub struct DataSetArgs {
    #[command(flatten)]
    coordinator: CoordinatorArg,
    /// Name of the data set
    #[arg(value_name = "NAME")]
    data_set: DataSetId,
}

#[derive(Subcommand, Clone, Debug)]
pub enum BudgetCommand {
    /// Record a data set with a privacy budget that all its jobs share
    Create {
        #[command(flatten)]
        of: DataSetArgs,
        /// Unit of privacy: example, user or device
        #[arg(long, value_name = "UNIT")]
        unit: PrivacyUnit,
        /// Relation of neighbouring data sets: zero-out, add-remove or replace
        #[arg(long, value_name = "RELATION", default_value = "zero-out")]
        neighbouring: NeighbouringRelation,
        /// ε that all jobs together may cost, above 0
        #[arg(long, value_name = "EPSILON")]
        epsilon: f64,
        /// δ at which ε is stated, strictly between 0 and 1
        #[arg(long, value_name = "DELTA")]
        delta: f64,
        /// Let the budget be of each block (budget block add), and bound nothing over all blocks together
        #[arg(long)]
        per_block: bool,
        /// Let a second person approve whatever raises the budget or a share, and rewinds (budget approve), for good; the caller's
        /// token must name a person
        #[arg(long)]
        require_approver: bool,
        /// Rewinds of each job that need no approval
        #[arg(long, value_name = "N", default_value_t = 0, requires = "require_approver")]
        free_rewinds: u32,
    },
    /// Add blocks: days of a data set that grows, with a budget of their own
    #[command(subcommand)]
    Block(BlockCommand),
    /// Show what of a budget is spent, reserved and left, and by which jobs
    Show(DataSetArgs),
    /// List all data sets
    List(CoordinatorArg),
    /// List the hash chain of a data set's durable events
    History(DataSetArgs),
    /// State what a budget paid for, on a page to be signed
    Report(ReportArgs),
    /// Set what one tenant may spend of a budget
    Share(ShareArgs),
    /// Replace a budget by one that holds all that is spent and reserved
    Grant(GrantArgs),
    /// Approve a change that another person then makes, once (token new --role approver --person)
    #[command(subcommand)]
    Approve(ApproveCommand),
}

impl BudgetCommand {
    fn coordinator(&self) -> &CoordinatorArg {
        match self {
            Self::List(coordinator) => coordinator,
            Self::Report(args) => args.coordinator(),
            Self::Share(args) => args.coordinator(),
            Self::Block(command) => command.coordinator(),
            Self::Grant(args) => args.coordinator(),
            Self::Approve(command) => command.coordinator(),
            Self::Create { of, .. } | Self::Show(of) | Self::History(of) => &of.coordinator,
        }
    }

    pub fn run(self, word: Option<Word>) -> anyhow::Result<ExitCode> {
        let format = match self {
            Self::Report(_) => Format::Table,
            _ => Format::try_from(word)?,
        };
        let coordinator = self.coordinator().clone();
        let to_call = coordinator.clone();
        online::block_on(&coordinator, async move {
            let client = to_call.client().await?;
            match self {
                Self::Create {
                    of,
                    unit,
                    neighbouring,
                    epsilon,
                    delta,
                    per_block,
                    require_approver,
                    free_rewinds,
                } => {
                    let budget = budget(epsilon, delta)?;
                    let request = request(&of.data_set, unit, neighbouring, budget);
                    let approval_rule = require_approver.then_some(pb::ApprovalRule { free_rewinds });
                    let request = pb::CreateDataSetRequest { per_block, approval_rule, ..request };
                    print(&client.budgets().create(request).await?, format)?;
                }
                Self::Block(command) => print(&command.run(&client).await?, format)?,
                Self::Show(of) => print(&client.budgets().get(&of.data_set).await?, format)?,
                Self::List(_) => list(&client, format).await?,
                Self::Report(args) => args.write(&client, word).await?,
                Self::Share(args) => print(&args.set(&client).await?, format)?,
                Self::History(of) => history(&client, &of.data_set, format).await?,
                Self::Grant(args) => print(&args.grant(&client).await?, format)?,
                Self::Approve(command) => print(&command.run(&client).await?, format)?,
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}

/// Reads a budget. Error: bad use, as every flag out of its range.
pub fn budget(epsilon: f64, delta: f64) -> anyhow::Result<PrivacyBudget> {
    PrivacyBudget::new(epsilon, delta).map_err(bad_use)
}

/// Returns the request that records a data set whose budget is of all its data.
pub fn request(
    data_set: &DataSetId,
    unit: PrivacyUnit,
    neighbouring: NeighbouringRelation,
    budget: PrivacyBudget,
) -> pb::CreateDataSetRequest {
    let PrivacyBudget { epsilon, delta } = budget;
    pb::CreateDataSetRequest {
        data_set: data_set.to_string(),
        unit: unit.to_string(),
        neighbouring: neighbouring.to_string(),
        budget: Some(pb::PrivacyAmount { epsilon, delta }),
        per_block: false,
        approval_rule: None,
    }
}

fn amount(amount: Option<&pb::PrivacyAmount>) -> Value {
    amount.map_or(Value::Null, |at| json!({ "epsilon": at.epsilon, "delta": at.delta }))
}

fn show(data_set: &pb::DataSet) -> Answer {
    let [approval_rule, pending_approvals] = approve::json_of(data_set);
    let charges: Vec<Value> = data_set.charges.iter().map(charge).collect();
    Answer::new()
        .with("data_set", data_set.data_set.clone())
        .with("unit", data_set.unit.clone())
        .with("neighbouring", data_set.neighbouring.clone())
        .with("budget", amount(data_set.budget.as_ref()))
        .with("spent", amount(data_set.spent.as_ref()))
        .with("reserved", amount(data_set.reserved.as_ref()))
        .with("left", amount(data_set.left.as_ref()))
        .with("adaptive", data_set.adaptive)
        .with("entries", data_set.entries)
        .with("head", hex::encode(&data_set.head))
        .with("per_block", data_set.per_block)
        .with("blocks", data_set.blocks.iter().map(block::json_of).collect::<Vec<_>>())
        .with("all_blocks", amount(data_set.all_blocks.as_ref()))
        .with("shares", data_set.shares.iter().map(share::json_of).collect::<Vec<_>>())
        .with("approval_rule", approval_rule)
        .with("pending_approvals", pending_approvals)
        .with("jobs", charges)
}

fn charge(charge: &pb::JobCharge) -> Value {
    let event: Value = serde_json::from_str(&charge.event).unwrap_or_default();
    json!({
        "job": charge.job,
        "state": charge.state,
        "rows_released": charge.rows_bound,
        "branch": charge.branch,
        "epsilon": charge.epsilon,
        "event": event,
        "tenant": Some(&charge.tenant).filter(|tenant| !tenant.is_empty()),
        "blocks": charge.blocks,
    })
}

fn print(data_set: &pb::DataSet, format: Format) -> anyhow::Result<()> {
    if format == Format::Json {
        return show(data_set).print(format);
    }
    streams::line(summary(std::slice::from_ref(data_set)))?;
    block::print(data_set)?;
    approve::print(data_set)?;
    if !data_set.shares.is_empty() {
        streams::line(share::table(&data_set.shares))?;
    }
    let mut table =
        output::table(&["job", "state", "rows released", "branch", "ε alone", "tenant", "blocks"]);
    for charge in &data_set.charges {
        let tenant = if charge.tenant.is_empty() { "-".to_owned() } else { charge.tenant.clone() };
        table.add_row([
            &charge.job,
            &charge.state,
            &charge.rows_bound.to_string(),
            &charge.branch.to_string(),
            &rounded_up(charge.epsilon),
            &tenant,
            &block::named(data_set, charge),
        ]);
    }
    if !data_set.charges.is_empty() {
        streams::line(table)?;
    }
    Ok(())
}

async fn list(client: &Client, format: Format) -> anyhow::Result<()> {
    let data_sets = client.budgets().list().await?;
    match format {
        Format::Json => {
            let data_sets: Vec<_> = data_sets.iter().map(show).collect();
            streams::line(json!({ "data_sets": data_sets }))
        }
        Format::Table => streams::line(summary(&data_sets)),
    }
}

fn summary(data_sets: &[pb::DataSet]) -> comfy_table::Table {
    let header = ["data set", "unit", "neighbouring", "δ", "ε budget", "ε spent", "ε reserved", "ε left"];
    let mut table = output::table(&header);
    for data_set in data_sets {
        let budget = data_set.budget.unwrap_or_default();
        let epsilon = |amount: Option<pb::PrivacyAmount>| amount.unwrap_or_default().epsilon;
        table.add_row([
            data_set.data_set.clone(),
            data_set.unit.clone(),
            data_set.neighbouring.clone(),
            budget.delta.to_string(),
            budget.epsilon.to_string(),
            rounded_up(epsilon(data_set.spent)),
            rounded_up(epsilon(data_set.reserved)),
            rounded_down(epsilon(data_set.left)),
        ]);
    }
    table
}

/// Prints the event chain. JSON has each event as the text that was hashed.
async fn history(client: &Client, data_set: &DataSetId, format: Format) -> anyhow::Result<()> {
    let entries = client.budgets().entries(data_set).await?;
    match format {
        Format::Json => {
            let entries: Vec<_> = entries.iter().map(online::entry).collect();
            streams::line(json!({ "data_set": data_set, "entries": entries }))
        }
        Format::Table => streams::line(online::entries(&entries)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_charge_looks_smaller_than_it_is_and_no_rest_larger() {
        let amount = |epsilon| Some(pb::PrivacyAmount { epsilon, delta: 1e-6 });
        let data_set = pb::DataSet {
            budget: amount(4.0),
            spent: amount(1.0000001),
            reserved: amount(1.9999998),
            left: amount(1.0000001),
            ..pb::DataSet::default()
        };
        let table = summary(&[data_set]);
        let shown: Vec<String> =
            table.row_iter().flat_map(comfy_table::Row::cell_iter).map(comfy_table::Cell::content).collect();
        assert_eq!(shown[4..], ["4", "1.00001", "2", "1"]);
    }
}
