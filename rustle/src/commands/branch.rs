//! The flags that identify the noise of one branch of a job, and the plan and keys that they select.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use noise_kernel::grid::GridMechanism;
use noise_kernel::{NoiseContext, Rounds, RowKeys};
use plan::{Coefficients, Plan};
use proto::NoiseId;

use super::{dimension, harden::harden};
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
    /// Number of coordinates of the whole vector [default: from the plan's layout]
    #[arg(long, value_name = "M")]
    pub dimension: Option<u64>,
}

/// A plan and the keys of one branch's rows.
pub struct Branch {
    pub plan: Plan,
    pub dimension: u64,
    pub keys: RowKeys,
    pub rounds: Rounds,
}

impl BranchArgs {
    /// Reads the plan and the key. Errors: a plan, a dimension or a key file that can't be used.
    pub fn open(&self, noise_id: &NoiseId) -> anyhow::Result<Branch> {
        let plan = plan_file::read(&self.plan)?;
        let dimension = dimension::resolve(self.dimension, &plan)?;
        harden()?;
        let context = NoiseContext::new(&plan, dimension, *noise_id.job_nonce.as_bytes())?;
        let keys = key_file::read(&self.key_file)?.row_keys(&context, &noise_id.lineage.nonces())?;
        let rounds = if plan.chacha_rounds() == 12 { Rounds::Twelve } else { Rounds::Twenty };
        Ok(Branch { plan, dimension, keys, rounds })
    }
}

impl Branch {
    /// Returns the coefficients of rows of floats. Error: the plan is on a grid (bad use).
    pub fn coefficients(&self) -> anyhow::Result<Arc<Coefficients>> {
        Ok(Arc::new(self.plan.coefficients().map_err(bad_use)?))
    }

    /// Returns the mechanism of rows of integers; `None` where the plan is not on a grid.
    pub fn grid(&self) -> anyhow::Result<Option<Arc<GridMechanism>>> {
        let iterations = self.plan.iterations();
        let mechanism =
            self.plan.on_grid().map(|on_grid| GridMechanism::of_plan(on_grid.coefficients(), iterations));
        Ok(mechanism.transpose()?.map(Arc::new))
    }
}

/// Checks that a range ends at `limit` or before it. The error names the flag, and `what` the limit is.
pub fn within(flag: &str, range: &Range<u64>, limit: u64, what: &str) -> anyhow::Result<()> {
    if range.end <= limit {
        return Ok(());
    }
    Err(bad_use(format!("{flag} is {}..{}; allowed: up to 0..{limit} ({what})", range.start, range.end)))
}
