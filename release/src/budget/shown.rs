//! A data set as it is shown: its odometer, and every charge with its cost alone.

use std::collections::BTreeSet;

use ledger::{ChargeState, ChargedJob, DataSetRecord, DataSetState, LedgerError, SweepRecord};
use proto::model::PrivacyBudget;
use proto::{TenantId, pb};
use report::{ApprovalLine, ChargeLine, DataSetReport, ShareLine};

use super::approvals::pending_of;
use super::odometer::{Odometer, cost_alone, cost_of_all, sweep_cost_alone};
use super::shown_blocks::{amount, block_lines, blocks_of};

/// Returns a data set with its odometer and all charges, those of sweeps last. Many sampled jobs take seconds.
///
/// # Errors
/// Those of [`Odometer::of`].
pub fn message_of(state: &DataSetState) -> Result<pb::DataSet, LedgerError> {
    let Odometer { spent, reserved, left, adaptive } = Odometer::of(state)?;
    let DataSetRecord { data_set, unit, neighbouring, budget, per_block, .. } = &state.record;
    let amount = |epsilon| Some(pb::PrivacyAmount { epsilon, delta: budget.delta });
    let jobs = state.charges.iter().map(|charged| of_job(charged, state));
    let sweeps = state.sweeps.iter().map(|sweep| of_sweep(sweep, state));
    Ok(pb::DataSet {
        data_set: data_set.to_string(),
        unit: unit.to_string(),
        neighbouring: neighbouring.to_string(),
        budget: amount(budget.epsilon),
        spent: amount(spent),
        reserved: amount(reserved),
        left: amount(left),
        charges: jobs.chain(sweeps).collect::<Result<_, LedgerError>>()?,
        entries: state.head.entries,
        head: state.head.hash.to_vec(),
        adaptive,
        shares: shares_of(state)?,
        per_block: *per_block,
        blocks: blocks_of(state)?,
        all_blocks: if *per_block { amount(cost_of_all(state)?) } else { None },
        approval_rule: state.record.approvals.as_ref().map(|approvals| approvals.rule.into()),
        pending_approvals: pending_of(state),
    })
}

/// Returns the odometers of all tenants that have a share or are charged.
fn shares_of(state: &DataSetState) -> Result<Vec<pb::TenantShare>, LedgerError> {
    let shares = &state.record.shares;
    let charged = state.charges.iter().filter_map(|charged| charged.charge.tenant.as_ref());
    let tenants: BTreeSet<&TenantId> = shares.keys().chain(charged).collect();
    tenants.into_iter().map(|tenant| share_of(tenant, shares.get(tenant), state)).collect()
}

fn share_of(
    tenant: &TenantId,
    share: Option<&PrivacyBudget>,
    state: &DataSetState,
) -> Result<pb::TenantShare, LedgerError> {
    let budget = *share.unwrap_or(&state.record.budget);
    let Odometer { spent, reserved, left, .. } = Odometer::of_budget(state, Some(tenant), budget)?;
    let amount = |epsilon| Some(pb::PrivacyAmount { epsilon, delta: budget.delta });
    Ok(pb::TenantShare {
        tenant: tenant.to_string(),
        share: share.and_then(|share| amount(share.epsilon)),
        spent: amount(spent),
        reserved: amount(reserved),
        left: share.and_then(|_| amount(left)),
    })
}

fn of_job(charged: &ChargedJob, state: &DataSetState) -> Result<pb::JobCharge, LedgerError> {
    let word = match charged.charge.state {
        _ if charged.charge.sweep.is_some() => "run",
        ChargeState::GivenBack => "given-back",
        _ if charged.is_adopted => "adopted",
        ChargeState::Open if charged.rows_bound == 0 => "reserved",
        ChargeState::Open | ChargeState::Final => "spent",
    };
    Ok(pb::JobCharge {
        job: charged.job.to_string(),
        state: word.to_owned(),
        rows_bound: charged.rows_bound,
        branch: charged.branch,
        event: charged.charge.event.clone(),
        epsilon: cost_alone(charged, state)?,
        tenant: charged.charge.tenant.as_ref().map_or_else(String::new, ToString::to_string),
        blocks: charged.charge.blocks.iter().map(ToString::to_string).collect(),
    })
}

fn of_sweep(sweep: &SweepRecord, state: &DataSetState) -> Result<pb::JobCharge, LedgerError> {
    Ok(pb::JobCharge {
        job: sweep.sweep.to_string(),
        state: "sweep".to_owned(),
        rows_bound: 0,
        branch: 0,
        event: sweep.charge.clone(),
        epsilon: sweep_cost_alone(sweep, state)?,
        tenant: String::new(),
        blocks: Vec::new(),
    })
}

/// Returns the report on a data set with the changes that two persons made, as `version` of the program writes it.
#[must_use]
pub fn report_of(data_set: &pb::DataSet, approvals: Vec<ApprovalLine>, version: &str) -> DataSetReport {
    let line = |charge: &pb::JobCharge| ChargeLine {
        job: charge.job.clone(),
        state: charge.state.clone(),
        rows_bound: charge.rows_bound,
        branch: charge.branch,
        epsilon: charge.epsilon,
        tenant: Some(charge.tenant.clone()).filter(|tenant| !tenant.is_empty()),
        blocks: charge.blocks.clone(),
        event: serde_json::from_str(&charge.event).unwrap_or_default(),
    };
    let share = |share: &pb::TenantShare| ShareLine {
        tenant: share.tenant.clone(),
        share: share.share.map(|share| amount(Some(share))),
        spent: amount(share.spent),
        reserved: amount(share.reserved),
        left: share.left.map(|left| amount(Some(left))),
    };
    DataSetReport {
        data_set: data_set.data_set.clone(),
        unit: data_set.unit.clone(),
        neighbouring: data_set.neighbouring.clone(),
        budget: amount(data_set.budget),
        spent: amount(data_set.spent),
        reserved: amount(data_set.reserved),
        left: amount(data_set.left),
        adaptive: data_set.adaptive,
        entries: data_set.entries,
        head: hex::encode(&data_set.head),
        shares: data_set.shares.iter().map(share).collect(),
        per_block: data_set.per_block,
        blocks: block_lines(data_set),
        all_blocks: data_set.all_blocks.map(|all| amount(Some(all))),
        jobs: data_set.charges.iter().map(line).collect(),
        free_rewinds: data_set.approval_rule.map(|rule| rule.free_rewinds),
        approvals,
        version: version.to_owned(),
    }
}
