//! Flags that several commands share: how often one user takes part.

use strategy::Participation;

use crate::output::bad_use;

/// Participations i < j of one user satisfy j − i ≥ min-sep.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct ParticipationArgs {
    /// Smallest distance j − i between two participations i < j of one user, in rounds
    #[arg(long, value_name = "B", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=i64::MAX as u64))]
    pub min_sep: u64,
    /// Largest number of participations of one user
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=i64::MAX as u64))]
    pub max_participations: u64,
}

impl ParticipationArgs {
    pub fn rule(self) -> anyhow::Result<Participation> {
        Participation::new(self.min_sep, self.max_participations).map_err(bad_use)
    }
}
