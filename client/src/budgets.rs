//! Calls on data sets and their privacy budgets. As calls on jobs, none is repeated by itself, except where no coordinator
//! leads.

use proto::model::PrivacyBudget;
use proto::{DataSetId, Result, ServiceError, TenantId, pb};

use crate::Connections;
use crate::connections::from_status;
use crate::leader::Patience;

/// A client of a cluster's data sets.
#[derive(Clone, Debug)]
pub struct Budgets {
    coordinator: String,
    connections: Connections,
}

/// Sends one request and returns the answer, or the service's error.
macro_rules! call {
    ($self:ident, $method:ident, $request:expr) => {{
        let request = $request;
        let mut patience = Patience::new();
        loop {
            let answer = $self.connections.budgets(&$self.coordinator)?.$method(request.clone()).await;
            match answer.map(tonic::Response::into_inner).map_err(from_status) {
                Err(ServiceError::NotLeader { .. }) if patience.is_left() => patience.pause().await,
                outcome => break outcome,
            }
        }
    }};
}

impl Budgets {
    pub(crate) fn new(coordinator: String, connections: Connections) -> Self {
        Self { coordinator, connections }
    }

    /// Records a data set.
    pub async fn create(&self, request: pb::CreateDataSetRequest) -> Result<pb::DataSet> {
        call!(self, create_data_set, request)
    }

    /// Returns a data set with what is spent, reserved and left.
    pub async fn get(&self, data_set: &DataSetId) -> Result<pb::DataSet> {
        call!(self, get_data_set, pb::GetDataSetRequest { data_set: data_set.to_string() })
    }

    /// Returns all data sets.
    pub async fn list(&self) -> Result<Vec<pb::DataSet>> {
        call!(self, list_data_sets, pb::ListDataSetsRequest {}).map(|answer| answer.data_sets)
    }

    /// Replaces the budget of a data set.
    pub async fn grant(&self, data_set: &DataSetId, budget: PrivacyBudget) -> Result<pb::DataSet> {
        let PrivacyBudget { epsilon, delta } = budget;
        let budget = Some(pb::PrivacyAmount { epsilon, delta });
        call!(self, grant_budget, pb::GrantBudgetRequest { data_set: data_set.to_string(), budget })
    }

    /// Sets a tenant's share of the budget of a data set; `None` takes it away.
    pub async fn set_share(
        &self,
        data_set: &DataSetId,
        tenant: &TenantId,
        share: Option<PrivacyBudget>,
    ) -> Result<pb::DataSet> {
        let share = share.map(|PrivacyBudget { epsilon, delta }| pb::PrivacyAmount { epsilon, delta });
        let request =
            pb::SetShareRequest { data_set: data_set.to_string(), tenant: tenant.to_string(), share };
        call!(self, set_share, request)
    }

    /// Records a block of a data set.
    pub async fn add_block(&self, request: pb::AddBlockRequest) -> Result<pb::DataSet> {
        call!(self, add_block, request)
    }

    /// Approves a change, which another person then makes.
    pub async fn approve(&self, request: pb::ApproveChangeRequest) -> Result<pb::DataSet> {
        call!(self, approve_change, request)
    }

    /// Returns the whole chain of the data set's events.
    pub async fn entries(&self, data_set: &DataSetId) -> Result<Vec<pb::Entry>> {
        let mut entries: Vec<pb::Entry> = Vec::new();
        loop {
            let first = entries.len() as u64;
            let request = pb::ListDataSetEntriesRequest { data_set: data_set.to_string(), first, most: 0 };
            let page = call!(self, list_data_set_entries, request)?.entries;
            if page.is_empty() {
                return Ok(entries);
            }
            entries.extend(page);
        }
    }
}
