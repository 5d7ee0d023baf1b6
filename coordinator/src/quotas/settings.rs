//! The settings of quotas.

use std::str::FromStr;

use node::config::settings::{Layers, SettingError};
use node::config::units::parse_bytes;

use crate::defaults::{self, SettingDefault};

pub const FLAG_JOB_BRANCHES: &str = "--max-job-branches";
pub const FLAG_JOB_ROWS: &str = "--max-job-rows";
pub const FLAG_JOB_BYTES: &str = "--max-job-bytes";
pub const FLAG_BRANCHES: &str = "--max-branches-per-minute";
pub const FLAG_CHECKPOINTS: &str = "--max-checkpoints-per-minute";
pub const FLAG_PLACEMENTS: &str = "--max-placements-per-minute";
pub const FLAG_LOG_LINES: &str = "--max-log-lines-per-minute";

/// The flags of quotas.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct QuotaArgs {
    /// Branches that one job may open, from its beginning to its end
    #[arg(long, value_name = "COUNT", hide_short_help = true)]
    pub max_job_branches: Option<String>,
    /// Rows that one job may bind, on all of its branches together
    #[arg(long, value_name = "COUNT", hide_short_help = true)]
    pub max_job_rows: Option<String>,
    /// Bytes that rows and branches of one job may take in the ledger, estimated
    #[arg(long, value_name = "BYTES", hide_short_help = true)]
    pub max_job_bytes: Option<String>,
    /// Bytes that one caller may add to the ledger in 24 hours, over all of its jobs
    #[arg(long, value_name = "BYTES", hide_short_help = true)]
    pub max_caller_bytes_per_day: Option<String>,
    /// Branches that one job may open in a minute, with ten minutes' worth at once; a caller ten times as many
    #[arg(long, value_name = "COUNT", hide_short_help = true)]
    pub max_branches_per_minute: Option<String>,
    /// Checkpoints of one job that may be requested in a minute, with ten minutes' worth at once; by a caller ten times as
    /// many
    #[arg(long, value_name = "COUNT", hide_short_help = true)]
    pub max_checkpoints_per_minute: Option<String>,
    /// Times a minute that one job's placement hints may be replaced, with ten minutes' worth at once; by a caller ten times
    /// as often
    #[arg(long, value_name = "COUNT", hide_short_help = true)]
    pub max_placements_per_minute: Option<String>,
    /// Lines a minute that requests about one job may write to the log, with ten minutes' worth at once; those of a caller
    /// ten times as many
    #[arg(long, value_name = "COUNT", hide_short_help = true)]
    pub max_log_lines_per_minute: Option<String>,
}

/// The quotas of every job and caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaSettings {
    /// Branches that a job may open.
    pub job_branches: u64,
    /// Rows that a job may bind, on all branches.
    pub job_rows: u64,
    /// Bytes of a job in the ledger, estimated.
    pub job_bytes: u64,
    /// Bytes that a caller adds to the ledger in a day, estimated.
    pub caller_bytes_per_day: u64,
    /// Branches a minute of a job.
    pub branches_per_minute: u32,
    /// Requested checkpoints a minute of a job.
    pub checkpoints_per_minute: u32,
    /// Replaced placement hints a minute of a job.
    pub placements_per_minute: u32,
    /// Lines a minute that requests about a job write to the log.
    pub log_lines_per_minute: u32,
}

impl QuotaArgs {
    /// Resolves each quota from flag, environment, file or default.
    pub fn resolve(self, layers: &mut Layers) -> Result<QuotaSettings, SettingError> {
        let layer = &mut *layers;
        Ok(QuotaSettings {
            job_branches: count(layer, defaults::MAX_JOB_BRANCHES, self.max_job_branches)?,
            job_rows: count(layer, defaults::MAX_JOB_ROWS, self.max_job_rows)?,
            job_bytes: defaults::MAX_JOB_BYTES.resolve(layer, self.max_job_bytes, bytes)?,
            caller_bytes_per_day: defaults::MAX_CALLER_BYTES.resolve(
                layer,
                self.max_caller_bytes_per_day,
                bytes,
            )?,
            branches_per_minute: count(layer, defaults::MAX_BRANCHES, self.max_branches_per_minute)?,
            checkpoints_per_minute: count(layer, defaults::MAX_CHECKPOINTS, self.max_checkpoints_per_minute)?,
            placements_per_minute: count(layer, defaults::MAX_PLACEMENTS, self.max_placements_per_minute)?,
            log_lines_per_minute: count(layer, defaults::MAX_LOG_LINES, self.max_log_lines_per_minute)?,
        })
    }
}

fn count<T: FromStr + PartialOrd + From<u8>>(
    layers: &mut Layers,
    setting: SettingDefault,
    flag: Option<String>,
) -> Result<T, SettingError> {
    let parse = |text: &str| {
        text.parse()
            .ok()
            .filter(|count: &T| *count >= T::from(1))
            .ok_or_else(|| "allowed: 1 or more".to_owned())
    };
    setting.resolve(layers, flag, parse)
}

fn bytes(text: &str) -> Result<u64, String> {
    parse_bytes(text).map_err(|error| error.to_string())
}

impl Default for QuotaSettings {
    /// Returns the quotas of a coordinator without settings.
    fn default() -> Self {
        let resolved =
            Layers::from_parts([], None).and_then(|mut none| QuotaArgs::default().resolve(&mut none));
        resolved.expect("the defaults are written in the form of settings, and a test reads them")
    }
}
