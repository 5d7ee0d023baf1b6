//! The participation flags, shared by several commands.

use strategy::Participation;

use crate::output::bad_use;

/// How often, and how closely in time, one user takes part.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct ParticipationArgs {
    /// Minimum distance j − i between two participations i < j of one user, in rounds
    #[arg(long, value_name = "B", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=i64::MAX as u64))]
    pub min_sep: u64,
    /// Maximum number of participations of one user
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=i64::MAX as u64))]
    pub max_participations: u64,
}

impl ParticipationArgs {
    /// Returns the participation rule. Error: bad use.
    pub fn rule(self) -> anyhow::Result<Participation> {
        Participation::new(self.min_sep, self.max_participations).map_err(bad_use)
    }
}
