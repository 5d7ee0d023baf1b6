//! Flags that name one branch of a job, and what they open.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use noise_kernel::{Rounds, RowKeys};
use plan::{Coefficients, Plan};
use proto::Lineage;

use super::harden::harden;
use crate::key_file;
use crate::output::bad_use;

// The plan promises a version of the stream, the kernel makes one.
const _: () = assert!(plan::STREAM_VERSION == noise_kernel::STREAM_VERSION);

#[derive(Clone, Debug, clap::Args)]
pub struct BranchArgs {
    /// The job's plan.toml
    #[arg(long, value_name = "FILE")]
    pub plan: PathBuf,
    /// The job's key: 32 raw bytes, mode 0400 or 0600
    #[arg(long, value_name = "FILE")]
    pub key_file: PathBuf,
    /// The job's ID
    #[arg(long, default_value = "default")]
    pub job: String,
    /// The branch's number
    #[arg(long, default_value_t = 0)]
    pub branch: u64,
    /// For a rewound job, the branch from which each row's Z comes, such as 0..120=0,120..=1, as `rustle job show`
    /// prints it
    #[arg(long, conflicts_with = "branch")]
    pub lineage: Option<Lineage>,
}

/// A plan with the keys of one branch's rows.
pub struct Branch {
    pub plan: Plan,
    pub keys: RowKeys,
    pub rounds: Rounds,
    pub coefficients: Arc<Coefficients>,
}

impl BranchArgs {
    /// Errors: a plan or a key file that can't be used.
    pub fn open(&self) -> anyhow::Result<Branch> {
        let plan = Plan::from_path(&self.plan)?;
        let lineage = self.lineage.clone().unwrap_or_else(|| Lineage::of_branch(self.branch));
        harden()?;
        let keys = key_file::read(&self.key_file)?.row_keys(&self.job, &lineage.pairs(), &plan.digest())?;
        let rounds = if plan.chacha_rounds() == 12 { Rounds::Twelve } else { Rounds::Twenty };
        let coefficients = Arc::new(plan.coefficients());
        Ok(Branch { plan, keys, rounds, coefficients })
    }
}

/// Error: a range that ends after `limit`; `flag` and `what` name them.
pub fn within(flag: &str, range: &Range<u64>, limit: u64, what: &str) -> anyhow::Result<()> {
    if range.end <= limit {
        return Ok(());
    }
    Err(bad_use(format!("{flag} is {}..{}; allowed: up to 0..{limit} ({what})", range.start, range.end)))
}
