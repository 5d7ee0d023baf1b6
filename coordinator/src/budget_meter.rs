//! The budget meter: what of each data set's budget is spent, reserved and left, for the metrics.
//!
//! It lives in memory only; the ledger is the truth. A composition is computed again only where its charges have changed.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

use ledger::Head;
use proto::DataSetId;
use release::budget::Odometer;
use serde_json::{Value, json};

use crate::block_readings::BlocksReading;
use crate::metric_definitions as metric;

/// The readings of all data sets.
#[derive(Debug, Default)]
pub struct BudgetMeter {
    readings: Mutex<BTreeMap<DataSetId, BudgetReading>>,
}

/// What a data set's odometer said, and the state that it was read on.
#[derive(Clone, Debug)]
pub struct BudgetReading {
    pub head: Head,
    /// The jobs that had bound a row: a first row is no event of the data set.
    pub spending_jobs: usize,
    pub epsilon: f64,
    pub delta: f64,
    pub odometer: Odometer,
    /// Of a data set with blocks alone.
    pub blocks: Option<BlocksReading>,
}

impl BudgetMeter {
    /// Returns what is known of a data set.
    pub fn reading(&self, data_set: &DataSetId) -> Option<BudgetReading> {
        self.readings.lock().unwrap_or_else(PoisonError::into_inner).get(data_set).cloned()
    }

    /// Keeps a reading.
    pub fn record(&self, data_set: DataSetId, reading: BudgetReading) {
        self.readings.lock().unwrap_or_else(PoisonError::into_inner).insert(data_set, reading);
    }

    /// Returns the budgets of all data sets as the status shows them.
    pub fn to_json(&self) -> Value {
        let readings = self.readings.lock().unwrap_or_else(PoisonError::into_inner);
        let budget = |(data_set, reading): (&DataSetId, &BudgetReading)| {
            let BudgetReading { epsilon, delta, odometer, blocks, .. } = reading;
            json!({
                "data_set": data_set,
                "delta": delta,
                "epsilon_budget": epsilon,
                "epsilon_spent": odometer.spent,
                "epsilon_reserved": odometer.reserved,
                "epsilon_left": odometer.left,
                "blocks": blocks.as_ref().map(BlocksReading::to_json),
            })
        };
        readings.iter().map(budget).collect()
    }

    /// Returns the metrics of all data sets, in Prometheus' text format.
    pub fn series(&self) -> String {
        let readings = self.readings.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut text = String::new();
        for (name, read) in SERIES {
            let defined = metric::DATA_SET_DEFINITIONS.iter().find(|definition| definition.name == name);
            let meaning = defined.map_or("", |definition| definition.description);
            // Writing to a String can't fail; names of data sets need no escaping.
            let _ = writeln!(text, "# HELP {name} {meaning}\n# TYPE {name} gauge");
            for (data_set, reading) in &readings {
                let delta = reading.delta;
                let Some(value) = read(reading) else { continue };
                let _ = writeln!(text, "{name}{{data_set=\"{data_set}\",delta=\"{delta:e}\"}} {value}");
            }
        }
        text
    }
}

type ReadValue = fn(&BudgetReading) -> Option<f64>;

const SERIES: [(&str, ReadValue); 7] = [
    (metric::DATA_SET_EPSILON_BUDGET, |reading| Some(reading.epsilon)),
    (metric::DATA_SET_EPSILON_SPENT, |reading| Some(reading.odometer.spent)),
    (metric::DATA_SET_EPSILON_RESERVED, |reading| Some(reading.odometer.reserved)),
    (metric::DATA_SET_EPSILON_LEFT, |reading| Some(reading.odometer.left)),
    (metric::DATA_SET_BLOCKS, |reading| Some(reading.blocks.as_ref()?.count as f64)),
    (metric::DATA_SET_BLOCKS_USED_UP, |reading| Some(reading.blocks.as_ref()?.used_up as f64)),
    (metric::DATA_SET_FULLEST_BLOCK, |reading| Some(reading.blocks.as_ref()?.used)),
];
