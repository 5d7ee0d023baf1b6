//! The budget meter: what of each data set's budget is spent, reserved and left, for the metrics.
//!
//! It lives in memory only; the ledger is the truth. A composition is computed again only where its charges have changed.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

use ledger::{DataSetState, Head};
use proto::model::PrivacyBudget;
use proto::{DataSetId, Result, ServiceError};
use release::budget::Odometer;
use tracing::warn;

use crate::coordinator::Coordinator;
use crate::metric_definitions as metric;

/// The readings of all data sets.
#[derive(Debug, Default)]
pub struct BudgetMeter {
    readings: Mutex<BTreeMap<DataSetId, BudgetReading>>,
}

/// What a data set's odometer said, and the state that it was read on.
#[derive(Clone, Debug)]
struct BudgetReading {
    head: Head,
    /// The jobs that had bound a row: a first row is no event of the data set.
    spending_jobs: usize,
    epsilon: f64,
    delta: f64,
    odometer: Odometer,
}

impl BudgetMeter {
    fn reading(&self, data_set: &DataSetId) -> Option<BudgetReading> {
        self.readings.lock().unwrap_or_else(PoisonError::into_inner).get(data_set).cloned()
    }

    fn record(&self, data_set: DataSetId, reading: BudgetReading) {
        self.readings.lock().unwrap_or_else(PoisonError::into_inner).insert(data_set, reading);
    }
}

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
        let odometer = node::process::blocking::run(move || Odometer::of(&state)).await;
        let odometer = odometer.map_err(ServiceError::internal)??;
        let PrivacyBudget { epsilon, delta } = state_budget;
        self.budget_meter().record(data_set, BudgetReading { head, spending_jobs, epsilon, delta, odometer });
        Ok(())
    }

    /// Returns the metrics of all data sets, in Prometheus' text format.
    pub fn data_set_metrics(&self) -> String {
        let readings = self.budget_meter().readings.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut text = String::new();
        for (name, read) in SERIES {
            let defined = metric::DATA_SET_DEFINITIONS.iter().find(|definition| definition.name == name);
            let meaning = defined.map_or("", |definition| definition.description);
            // Writing to a String can't fail; names of data sets need no escaping.
            let _ = writeln!(text, "# HELP {name} {meaning}\n# TYPE {name} gauge");
            for (data_set, reading) in &readings {
                let delta = reading.delta;
                let value = read(reading);
                let _ = writeln!(text, "{name}{{data_set=\"{data_set}\",delta=\"{delta:e}\"}} {value}");
            }
        }
        text
    }
}

type ReadValue = fn(&BudgetReading) -> f64;

const SERIES: [(&str, ReadValue); 4] = [
    (metric::DATA_SET_EPSILON_BUDGET, |reading| reading.epsilon),
    (metric::DATA_SET_EPSILON_SPENT, |reading| reading.odometer.spent),
    (metric::DATA_SET_EPSILON_RESERVED, |reading| reading.odometer.reserved),
    (metric::DATA_SET_EPSILON_LEFT, |reading| reading.odometer.left),
];
