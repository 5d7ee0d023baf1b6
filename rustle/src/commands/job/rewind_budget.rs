//! Whether a data set's budget can hold a rewind at all.

use accounting::rewind::ReleasedRows;
use client::Client;
use plan::Plan;
use proto::{ServiceError, pb};
use serde_json::json;

use crate::commands::whole_run::epsilon;
use crate::failure::Typed;
use crate::figures::{rounded_down, rounded_up};
use crate::streams;

/// A budget or a share that the job is charged in: its place, ε and δ, and ε that is left.
struct Bound {
    place: String,
    amount: pb::PrivacyAmount,
    left: f64,
}

/// Checks that the job alone, once rewound, costs no more than the budgets and shares that it is charged in. What other jobs are
/// charged comes on top, which a note says: the coordinator judges it when the job is rewound.
///
/// # Errors
/// It costs more: the coordinator would refuse the rewind (`budget_exceeded`).
pub async fn check(client: &Client, job: &pb::Job, plan: &Plan, after: &ReleasedRows) -> anyhow::Result<()> {
    let data_sets = match client.budgets().list().await {
        Ok(data_sets) => data_sets,
        // A trainer may rewind, and may not look at budgets.
        Err(ServiceError::PermissionDenied) => {
            streams::note(
                "note: these rights show no budgets: where one pays for the job, it decides when the job is rewound",
            );
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    for data_set in data_sets {
        let charges = data_set.charges.iter();
        let mut open = charges.filter(|charge| charge.job == job.job && !is_closed(&charge.state));
        let Some(charge) = open.next() else { continue };
        for Bound { place, amount, left } in bounds(&data_set, charge) {
            let Some(alone) = epsilon(plan, after, amount.delta)? else { continue };
            if alone > amount.epsilon {
                return Err(refusal(&job.job, &place, amount, alone));
            }
            streams::note(format_args!(
                "note: the rewind is charged to {place}, of which ε = {} is left; it is refused where that does not hold the \
                 difference",
                rounded_down(left)
            ));
        }
    }
    Ok(())
}

/// Returns whether nothing is charged for the job itself any more: it was given back, or is a run of a sweep.
fn is_closed(state: &str) -> bool {
    matches!(state, "given-back" | "run" | "sweep")
}

fn bounds(data_set: &pb::DataSet, charge: &pb::JobCharge) -> Vec<Bound> {
    let name = &data_set.data_set;
    let bound = |place: String, amount: Option<pb::PrivacyAmount>, left: Option<pb::PrivacyAmount>| {
        let left = left.map_or(0.0, |left| left.epsilon);
        amount.map(|amount| Bound { place, amount, left })
    };
    let whole = bound(format!("the budget of data set {name}"), data_set.budget, data_set.left);
    let blocks = data_set.blocks.iter().filter(|block| charge.blocks.contains(&block.block));
    let blocks = blocks.filter_map(|block| {
        bound(format!("the budget of block {} of data set {name}", block.block), block.budget, block.left)
    });
    let shares = data_set.shares.iter().filter(|share| share.tenant == charge.tenant);
    let shares = shares.filter_map(|share| {
        bound(format!("the share of tenant {} in data set {name}", share.tenant), share.share, share.left)
    });
    // The budget of a data set per block is that of one block.
    whole.into_iter().filter(|_| !data_set.per_block).chain(blocks).chain(shares).collect()
}

fn refusal(job: &str, place: &str, amount: pb::PrivacyAmount, alone: f64) -> anyhow::Error {
    let pb::PrivacyAmount { epsilon, delta } = amount;
    let problem = json!({
        "kind": "budget_exceeded",
        "what": format!(
            "the rewind would be refused: {place} is ε = {epsilon} at δ = {delta:e}, and job {job} alone would cost {} once rewound",
            rounded_up(alone)
        ),
        "next_step": "a later --to-row, which costs less, or a larger budget or share (rustle budget grant, rustle budget share)",
    });
    Typed::of_problem(&problem).into()
}
