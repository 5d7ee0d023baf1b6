//! The flags that identify one branch of a job, and the plan and keys that they select.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use noise_kernel::{Rounds, RowKeys};
use plan::{Coefficients, Plan};
use proto::Lineage;

use super::harden::harden;
use crate::commands::plan_file;
use crate::key_file;
use crate::output::bad_use;

// The plan states a version of the noise stream; the kernel generates one.
const _: () = assert!(plan::STREAM_VERSION == noise_kernel::STREAM_VERSION);

#[derive(Clone, Debug, clap::Args)]
pub struct BranchArgs {
    /// File of the job's plan
    #[arg(long, value_name = "FILE")]
    pub plan: PathBuf,
    /// File of the job's key: 32 raw bytes, mode 0400 or 0600
    #[arg(long, value_name = "FILE")]
    pub key_file: PathBuf,
    /// Name of the job
    #[arg(long, default_value = "default")]
    pub job: String,
    /// Number of the branch, for a job that never rewound
    #[arg(long, value_name = "B", default_value_t = 0)]
    pub branch: u64,
    /// Branch of each row's Z in a job that rewound, from `rustle job show`: 0..120=0,120..=1
    #[arg(long, conflicts_with = "branch")]
    pub lineage: Option<Lineage>,
}

/// A plan and the keys of one branch's rows.
pub struct Branch {
    pub plan: Plan,
    pub keys: RowKeys,
    pub rounds: Rounds,
    pub coefficients: Arc<Coefficients>,
}

impl BranchArgs {
    /// Reads the plan and the key. Errors: a plan or a key file that can't be used.
    pub fn open(&self) -> anyhow::Result<Branch> {
        let plan = plan_file::read(&self.plan)?;
        let lineage = self.lineage.clone().unwrap_or_else(|| Lineage::of_branch(self.branch));
        harden()?;
        let keys = key_file::read(&self.key_file)?.row_keys(&self.job, &lineage.pairs(), &plan.digest())?;
        let rounds = if plan.chacha_rounds() == 12 { Rounds::Twelve } else { Rounds::Twenty };
        let coefficients = Arc::new(plan.coefficients());
        Ok(Branch { plan, keys, rounds, coefficients })
    }
}

/// Checks that a range ends at `limit` or before it. The error names the flag, and `what` the limit is.
pub fn within(flag: &str, range: &Range<u64>, limit: u64, what: &str) -> anyhow::Result<()> {
    if range.end <= limit {
        return Ok(());
    }
    Err(bad_use(format!("{flag} is {}..{}; allowed: up to 0..{limit} ({what})", range.start, range.end)))
}
