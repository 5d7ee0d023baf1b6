//! `rustle.v1.Budgets`.

use std::sync::Arc;

use proto::pb::{self, budgets_server::Budgets};
use proto::{DataSetId, Result};
use tonic::{Request, Response, Status};

use super::authorize::caller_and_message;
use super::{answer, run_detached};
use crate::coordinator::Coordinator;

pub struct BudgetsService(pub Arc<Coordinator>);

#[tonic::async_trait]
impl Budgets for BudgetsService {
    async fn create_data_set(
        &self,
        request: Request<pb::CreateDataSetRequest>,
    ) -> Result<Response<pb::DataSet>, Status> {
        let coordinator = self.0.clone();
        let (_, request) = caller_and_message(request)?;
        run_detached(async move { coordinator.create_data_set(request.try_into()?).await }).await
    }

    async fn get_data_set(
        &self,
        request: Request<pb::GetDataSetRequest>,
    ) -> Result<Response<pb::DataSet>, Status> {
        let (_, request) = caller_and_message(request)?;
        answer(async { self.0.data_set(DataSetId::new(request.data_set)?).await }.await)
    }

    async fn list_data_sets(
        &self,
        request: Request<pb::ListDataSetsRequest>,
    ) -> Result<Response<pb::ListDataSetsResponse>, Status> {
        caller_and_message(request)?;
        let data_sets = self.0.data_sets().await;
        answer(data_sets.map(|data_sets| pb::ListDataSetsResponse { data_sets }))
    }

    async fn grant_budget(
        &self,
        request: Request<pb::GrantBudgetRequest>,
    ) -> Result<Response<pb::DataSet>, Status> {
        let coordinator = self.0.clone();
        let (_, pb::GrantBudgetRequest { data_set, budget }) = caller_and_message(request)?;
        run_detached(
            async move { coordinator.grant_budget(DataSetId::new(data_set)?, budget.try_into()?).await },
        )
        .await
    }

    async fn set_share(
        &self,
        request: Request<pb::SetShareRequest>,
    ) -> Result<Response<pb::DataSet>, Status> {
        let coordinator = self.0.clone();
        let (_, request) = caller_and_message(request)?;
        run_detached(async move { coordinator.set_share(request.try_into()?).await }).await
    }

    async fn add_block(
        &self,
        request: Request<pb::AddBlockRequest>,
    ) -> Result<Response<pb::DataSet>, Status> {
        let coordinator = self.0.clone();
        let (_, request) = caller_and_message(request)?;
        run_detached(async move { coordinator.add_block(request.try_into()?).await }).await
    }

    async fn approve_change(
        &self,
        request: Request<pb::ApproveChangeRequest>,
    ) -> Result<Response<pb::DataSet>, Status> {
        let coordinator = self.0.clone();
        let (_, request) = caller_and_message(request)?;
        run_detached(async move { coordinator.approve_change(request.try_into()?).await }).await
    }

    async fn list_data_set_entries(
        &self,
        request: Request<pb::ListDataSetEntriesRequest>,
    ) -> Result<Response<pb::ListEntriesResponse>, Status> {
        let (_, request) = caller_and_message(request)?;
        answer(self.0.data_set_entries(request).await)
    }
}
