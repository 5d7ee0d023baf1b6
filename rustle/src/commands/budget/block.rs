//! `rustle budget block`: days of a data set that grows, with a budget of their own.

use clap::{Args, Subcommand};
use client::Client;
use proto::{BlockId, DataSetId, Day, pb};
use serde_json::{Value, json};

use super::{amount, budget};
use crate::access::CoordinatorArg;
use crate::figures::{rounded_down, rounded_up};
use crate::output;
use crate::streams;

#[derive(Subcommand, Clone, Debug)]
pub enum BlockCommand {
    /// Add a block, which is never changed: new jobs name the blocks that they read, and are charged in each
    Add(AddArgs),
}

#[derive(Args, Clone, Debug)]
pub struct AddArgs {
    #[command(flatten)]
    coordinator: CoordinatorArg,
    /// Name of the data set
    #[arg(value_name = "NAME")]
    data_set: DataSetId,
    /// Name of the block, unique in its data set
    #[arg(value_name = "BLOCK")]
    block: BlockId,
    /// First day of its records in UTC, such as 2026-11-01
    #[arg(long, value_name = "DAY")]
    from: Day,
    /// First day after them
    #[arg(long, value_name = "DAY")]
    until: Day,
    /// ε that all jobs that read the block together may cost, at most that of the data set's budget [default: that]
    #[arg(long, value_name = "EPSILON")]
    epsilon: Option<f64>,
    /// δ at which ε is stated, at most that of the data set's budget [default: that]
    #[arg(long, value_name = "DELTA", requires = "epsilon")]
    delta: Option<f64>,
}

impl BlockCommand {
    pub fn coordinator(&self) -> &CoordinatorArg {
        match self {
            Self::Add(args) => &args.coordinator,
        }
    }

    /// Adds the block, and returns the data set.
    pub async fn run(&self, client: &Client) -> anyhow::Result<pb::DataSet> {
        let Self::Add(AddArgs { data_set, block, from, until, epsilon, delta, .. }) = self;
        let budgets = client.budgets();
        let budget = match (*epsilon, *delta) {
            (None, _) => None,
            (Some(epsilon), Some(delta)) => Some(budget(epsilon, delta)?),
            (Some(epsilon), None) => {
                let own = budgets.get(data_set).await?.budget.unwrap_or_default().delta;
                Some(budget(epsilon, own)?)
            }
        };
        let request = pb::AddBlockRequest {
            data_set: data_set.to_string(),
            block: block.to_string(),
            from: from.to_string(),
            until: until.to_string(),
            budget: budget.map(|at| pb::PrivacyAmount { epsilon: at.epsilon, delta: at.delta }),
        };
        Ok(budgets.add_block(request).await?)
    }
}

/// Returns a block as JSON shows it.
pub fn json_of(block: &pb::BlockBudget) -> Value {
    json!({
        "block": block.block,
        "from": block.from,
        "until": block.until,
        "budget": amount(block.budget.as_ref()),
        "spent": amount(block.spent.as_ref()),
        "reserved": amount(block.reserved.as_ref()),
        "left": amount(block.left.as_ref()),
        "adaptive": block.adaptive,
    })
}

/// Prints whose data the figures of a data set with blocks hold for, and the table of all blocks.
pub fn print(data_set: &pb::DataSet) -> anyhow::Result<()> {
    let unit = &data_set.unit;
    if data_set.per_block {
        let all = data_set.all_blocks.unwrap_or_default();
        streams::line(format!(
            "spent, reserved and left are of the fullest block, and hold for the part of the data of one {unit} in any one block.\n\
             For all data of one {unit}, in whichever blocks, ε is {} at δ = {}: no budget bounds that.",
            rounded_up(all.epsilon),
            all.delta
        ))?;
    }
    if data_set.blocks.is_empty() {
        return Ok(());
    }
    streams::line(format!("A block's figures hold for the part of the data of one {unit} that lies in it:"))?;
    let header = ["block", "from", "until before", "δ", "ε budget", "ε spent", "ε reserved", "ε left"];
    let mut table = output::table(&header);
    for block in &data_set.blocks {
        let budget = block.budget.unwrap_or_default();
        let epsilon = |amount: Option<pb::PrivacyAmount>| amount.unwrap_or_default().epsilon;
        table.add_row([
            block.block.clone(),
            block.from.clone(),
            block.until.clone(),
            budget.delta.to_string(),
            budget.epsilon.to_string(),
            rounded_up(epsilon(block.spent)),
            rounded_up(epsilon(block.reserved)),
            rounded_down(epsilon(block.left)),
        ]);
    }
    streams::line(table)
}

/// Returns the blocks that a charge counts in, in words.
pub fn named(data_set: &pb::DataSet, charge: &pb::JobCharge) -> String {
    match (data_set.blocks.is_empty(), charge.blocks.is_empty()) {
        (true, true) => "-".to_owned(),
        (false, true) => "all".to_owned(),
        _ => charge.blocks.join(", "),
    }
}
