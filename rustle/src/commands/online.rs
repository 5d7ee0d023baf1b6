//! Helpers of the commands that call a coordinator.

use std::future::Future;

use comfy_table::{ContentArrangement, Table, presets::UTF8_FULL_CONDENSED};
use node::process::runtime::Runtime;

use super::harden::harden;

/// Runs a command's future to its end on this thread, after [`harden`]: the command reads keys, tokens or rows.
pub fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    harden()?;
    Runtime::with_threads(2)?.block_on(work)
}

/// Returns an empty table with this header.
pub fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table
        .load_preset(UTF8_FULL_CONDENSED)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(header);
    table
}
