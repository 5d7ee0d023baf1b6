//! The reading of odometers, for the budget meter.

use ledger::{DataSetState, LedgerError};
use proto::model::PrivacyBudget;
use proto::{Result, ServiceError};
use release::budget::Odometer;
use tracing::warn;

use crate::block_readings::BlocksReading;
use crate::budget_meter::BudgetReading;
use crate::coordinator::Coordinator;

impl Coordinator {
    /// Reads the odometers of all data sets that have changed.
    pub async fn meter_budgets(&self) {
        let states = match self.data_set_states().await {
            Ok(states) => states,
            Err(error) => {
                warn!(%error, "the budgets of data sets could not be read; trying again");
                return;
            }
        };
        for state in states {
            let data_set = state.record.data_set.clone();
            if let Err(error) = self.meter_budget(state).await {
                warn!(%data_set, %error, "what is left of a budget could not be computed; trying again");
            }
        }
    }

    async fn meter_budget(&self, state: DataSetState) -> Result<()> {
        let data_set = state.record.data_set.clone();
        let spending_jobs = state.charges.iter().filter(|charged| charged.rows_bound > 0).count();
        let head = state.head;
        let known = self.budget_meter().reading(&data_set);
        if known.is_some_and(|known| (known.head, known.spending_jobs) == (head, spending_jobs)) {
            return Ok(());
        }
        let state_budget = state.record.budget;
        let read = move || Ok::<_, LedgerError>((Odometer::of(&state)?, BlocksReading::of(&state)?));
        let read = node::process::blocking::run(read).await;
        let (odometer, blocks) = read.map_err(ServiceError::internal)??;
        let PrivacyBudget { epsilon, delta } = state_budget;
        let reading = BudgetReading { head, spending_jobs, epsilon, delta, odometer, blocks };
        self.budget_meter().record(data_set, reading);
        Ok(())
    }
}
