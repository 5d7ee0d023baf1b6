//! The accounts that batches can have, and the relations that each accepts: one table.
//!
//! Batches say by it which relations may be asked for, and accounts refuse the others by it.

use serde::{Deserialize, Serialize};

use crate::neighbouring::Neighbouring::{self, AddRemove, Replace, ZeroOut};
use crate::scheme::{Partition, Scheme};

/// An account of batches: the argument by which their privacy is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AccountKind {
    /// Poisson-sampled rounds of independent noise.
    Poisson,
    /// The same with a cap: a record in a full batch takes another one's place, and the account charges for both.
    TruncatedPoisson,
    /// Mixtures of Gaussians, for users with several sampled records.
    UserLevel,
    /// A banded strategy under cyclic Poisson sampling, each record in a group of its own draw.
    CyclicPoisson,
    /// The same with groups of one size, capped or not.
    CyclicPoissonEqualSplit,
    /// Privacy-loss distributions of random allocation, with independent noise and batches without a cap.
    RandomAllocation,
    /// Monte Carlo over balls-in-bins batches.
    BallsInBins,
    /// Monte Carlo over b-min-sep batches.
    BMinSep,
    /// No amplification: the participation rule alone, for batches that don't depend on the number of records.
    AnyOrder,
    /// No amplification, for batches that depend on the number of records, which has to be public.
    AnyOrderPublicSize,
}

impl AccountKind {
    /// All accounts, in the order of the table.
    pub const ALL: [Self; 10] = [
        Self::Poisson,
        Self::TruncatedPoisson,
        Self::UserLevel,
        Self::CyclicPoisson,
        Self::CyclicPoissonEqualSplit,
        Self::RandomAllocation,
        Self::BallsInBins,
        Self::BMinSep,
        Self::AnyOrder,
        Self::AnyOrderPublicSize,
    ];

    /// Returns the relations under which the account holds; it refuses the others.
    ///
    /// Where batches depend on the number of records, one record more moves others, so adding and removing is excluded.
    /// Truncated Poisson rounds are the exception, as their account includes the moves. No worst pair is known for
    /// replacement of a user with several sampled records, or of a record that is in some batches of an epoch: both data sets
    /// are mixtures there. Monte Carlo compares a record
    /// with its zero vector alone.
    #[must_use]
    pub const fn relations(self) -> &'static [Neighbouring] {
        match self {
            Self::Poisson | Self::TruncatedPoisson | Self::CyclicPoisson | Self::AnyOrder => {
                &[ZeroOut, AddRemove, Replace]
            }
            Self::UserLevel | Self::RandomAllocation => &[ZeroOut, AddRemove],
            Self::CyclicPoissonEqualSplit | Self::AnyOrderPublicSize => &[ZeroOut, Replace],
            Self::BallsInBins | Self::BMinSep => &[ZeroOut],
        }
    }

    /// Returns whether the account holds under a relation.
    #[must_use]
    pub fn accepts(self, relation: Neighbouring) -> bool {
        self.relations().contains(&relation)
    }

    /// Returns the account of a scheme's batches.
    ///
    /// Under a cap, a record that joins a full batch pushes another one out. The accounts of Poisson rounds charge for
    /// that where the number of records that compete for a batch is public: without groups, or in groups of one size.
    /// Capped batches of the other schemes have no amplified account.
    pub(crate) fn of(scheme: &Scheme) -> Self {
        match *scheme {
            Scheme::Poisson { cap: None, .. } | Scheme::Els { group_size: 1, .. } => Self::Poisson,
            Scheme::Poisson { cap: Some(_), .. } => Self::TruncatedPoisson,
            Scheme::CyclicPoisson { partition: Partition::EqualSplit, .. } => Self::CyclicPoissonEqualSplit,
            Scheme::CyclicPoisson { cap: None, .. } | Scheme::CyclicPoisson { bands: 1, .. } => {
                Self::CyclicPoisson
            }
            Scheme::BallsInBins { cap: None, .. } => Self::BallsInBins,
            Scheme::BMinSep { cap: None, .. } => Self::BMinSep,
            Scheme::RandomAllocation { cap: None, .. } => Self::RandomAllocation,
            Scheme::CyclicPoisson { .. }
            | Scheme::BallsInBins { .. }
            | Scheme::BMinSep { .. }
            | Scheme::RandomAllocation { .. }
            | Scheme::FixedOrder { .. }
            | Scheme::ContributionBound { .. } => Self::AnyOrderPublicSize,
            Scheme::Els { .. } => Self::UserLevel,
            Scheme::Uls { ref users, .. } => Self::of(users),
        }
    }
}
