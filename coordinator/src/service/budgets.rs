//! Data sets: recording them, reading and raising their budgets.

use ledger::{Approvals, DataSetRecord, DataSetState};
use proto::model::{AddBlock, ApproveChange, CreateDataSet, PrivacyBudget, SetShare};
use proto::{DataSetId, Result, ServiceError, pb};
use release::budget;
use tracing::info;

use super::branches::{MAX_ENTRIES, MAX_ENTRY_BYTES, entry_message};
use super::tenants::check_is_of_no_tenant;
use crate::coordinator::Coordinator;

impl Coordinator {
    /// Records a data set, or returns it if it exists with the same definition.
    pub async fn create_data_set(&self, request: CreateDataSet) -> Result<pb::DataSet> {
        check_is_of_no_tenant()?;
        let CreateDataSet { data_set, unit, neighbouring, budget, per_block, approval_rule } = request;
        let record = DataSetRecord {
            data_set: data_set.clone(),
            unit,
            neighbouring,
            budget,
            shares: Default::default(),
            blocks: Default::default(),
            per_block,
            approvals: approval_rule.map(Approvals::from),
        };
        let created = self.with_ledger(move |ledger| ledger.create_data_set(&record)).await?;
        info!(%data_set, ?created, epsilon = budget.epsilon, delta = budget.delta, "data set recorded");
        self.data_set(data_set).await
    }

    /// Replaces a data set's budget.
    pub async fn grant_budget(&self, data_set: DataSetId, budget: PrivacyBudget) -> Result<pb::DataSet> {
        check_is_of_no_tenant()?;
        self.check_charges_known().await?;
        let name = data_set.clone();
        self.with_ledger(move |ledger| budget::grant(ledger, &name, budget)).await?;
        info!(%data_set, epsilon = budget.epsilon, delta = budget.delta, "budget granted");
        self.data_set(data_set).await
    }

    /// Sets a tenant's share of a data set's budget.
    pub async fn set_share(&self, request: SetShare) -> Result<pb::DataSet> {
        check_is_of_no_tenant()?;
        self.check_charges_known().await?;
        let SetShare { data_set, tenant, share } = request.clone();
        self.with_ledger(move |ledger| budget::set_share(ledger, &request)).await?;
        let epsilon = share.map(|share| share.epsilon);
        info!(%data_set, %tenant, epsilon, delta = share.map(|share| share.delta), "share set");
        self.data_set(data_set).await
    }

    /// Records a block of a data set.
    pub async fn add_block(&self, request: AddBlock) -> Result<pb::DataSet> {
        check_is_of_no_tenant()?;
        self.check_charges_known().await?;
        let AddBlock { data_set, block, from, until, .. } = request.clone();
        self.with_ledger(move |ledger| budget::add_block(ledger, &request)).await?;
        info!(%data_set, %block, %from, %until, "block added");
        self.data_set(data_set).await
    }

    /// Records that the caller, a person, consents to a change which another person then makes.
    pub async fn approve_change(&self, request: ApproveChange) -> Result<pb::DataSet> {
        check_is_of_no_tenant()?;
        let change = request.change.clone();
        let data_set = self.with_ledger(move |ledger| budget::approve(ledger, &request)).await?;
        info!(%data_set, %change, "change approved");
        self.data_set(data_set).await
    }

    /// Returns a data set with its odometer and all charges.
    pub async fn data_set(&self, data_set: DataSetId) -> Result<pb::DataSet> {
        let state = self.with_ledger(move |ledger| ledger.data_set(&data_set)).await?;
        self.data_set_message(state).await
    }

    /// Returns all data sets, by name.
    pub async fn data_sets(&self) -> Result<Vec<pb::DataSet>> {
        let states = self.data_set_states().await?;
        let mut messages = Vec::new();
        for state in states {
            messages.push(self.data_set_message(state).await?);
        }
        Ok(messages)
    }

    /// Reads the state of every data set.
    pub async fn data_set_states(&self) -> Result<Vec<DataSetState>> {
        self.with_ledger(|ledger| {
            ledger.data_sets()?.iter().map(|data_set| ledger.data_set(data_set)).collect()
        })
        .await
    }

    /// Returns entries of a data set's chain of events, as many as fit in one answer.
    pub async fn data_set_entries(
        &self,
        request: pb::ListDataSetEntriesRequest,
    ) -> Result<pb::ListEntriesResponse> {
        let data_set = DataSetId::new(request.data_set)?;
        let most = match request.most {
            0 => MAX_ENTRIES,
            most => MAX_ENTRIES.min(most as usize),
        };
        let entries = self
            .with_ledger(move |ledger| {
                ledger.data_set_entries(&data_set, request.first, most, MAX_ENTRY_BYTES)
            })
            .await?;
        Ok(pb::ListEntriesResponse { entries: entries.into_iter().map(entry_message).collect() })
    }

    /// Compositions of sampled jobs take seconds: they have blocking threads, few at once.
    async fn data_set_message(&self, state: DataSetState) -> Result<pb::DataSet> {
        let turn =
            self.answer_limits().accounts.clone().acquire_owned().await.map_err(ServiceError::internal)?;
        let message = node::process::blocking::run(move || {
            let _held = turn;
            budget::message_of(&state)
        });
        Ok(message.await.map_err(ServiceError::internal)??)
    }
}
