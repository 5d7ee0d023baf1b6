//! `rustle budget report`: a data set's budget with all that it paid for, to be signed.

use std::path::{Path, PathBuf};

use clap::Args;
use client::Client;
use proto::DataSetId;
use release::budget::{approvals_used, report_of};

use crate::access::CoordinatorArg;
use crate::commands::report::{Page, page};
use crate::out_file::{Access, OutFile};
use crate::output::Word;

#[derive(Args, Clone, Debug)]
pub struct ReportArgs {
    #[command(flatten)]
    coordinator: CoordinatorArg,
    /// Name of the data set
    #[arg(value_name = "NAME")]
    data_set: DataSetId,
    /// File to write, in the format of its extension; - for standard output [default: -]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl ReportArgs {
    pub fn coordinator(&self) -> &CoordinatorArg {
        &self.coordinator
    }

    /// Writes the report.
    pub async fn write(&self, client: &Client, word: Option<Word>) -> anyhow::Result<()> {
        let page = page(word, self.out.as_deref())?;
        let out = OutFile::open(self.out.as_deref().unwrap_or(Path::new("-")), Access::Everyone)?;
        let data_set = client.budgets().get(&self.data_set).await?;
        let approvals = match data_set.approval_rule {
            Some(_) => {
                let mut entries = client.budgets().entries(&self.data_set).await?;
                // The report ends where its head says.
                entries.truncate(usize::try_from(data_set.entries)?);
                approvals_used(entries.iter().map(|entry| entry.event.as_str()))?
            }
            None => Vec::new(),
        };
        let report = report_of(&data_set, approvals, env!("CARGO_PKG_VERSION"));
        let text = match page {
            Page::Markdown => report.markdown(),
            Page::Html => report.html(),
            Page::Json => format!("{}\n", serde_json::to_string(&report)?),
        };
        out.write_and_finish(text.as_bytes())?;
        Ok(())
    }
}
