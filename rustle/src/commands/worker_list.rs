//! `rustle worker list`: the workers that are here, and those that are not.

use serde_json::json;

use super::{status, status_table};
use crate::access::CoordinatorArg;
use crate::output::Format;
use crate::streams;

/// Prints the workers of a cluster.
pub async fn run(coordinator: &CoordinatorArg, format: Format) -> anyhow::Result<()> {
    let mut status = status::fetch(coordinator).await?;
    match format {
        Format::Json => {
            let [workers, absent] = ["workers", "absent_workers"].map(|name| status[name].take());
            streams::line(json!({ "workers": workers, "absent_workers": absent }))
        }
        Format::Table => {
            let [workers, absent] = ["workers", "absent_workers"]
                .map(|name| status[name].as_array().cloned().unwrap_or_default());
            streams::line(status_table::workers_table(&workers, &absent).trim_end())
        }
    }
}
