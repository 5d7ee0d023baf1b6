//! The schemes by which records join rounds.

use serde::{Deserialize, Serialize};

/// A way of forming batches. Rounds count from 0; epoch e is rounds e·b to e·b + b − 1 of b batches in each epoch.
///
/// A cap B keeps a uniformly random B of a larger batch; a smaller batch is to be padded to B with empty records
/// ([`crate::Batch::padding`]). A record that is cut has taken part as far as the scheme is concerned. Under a cap the
/// presence of one record decides about others, which an account has to charge for ([`crate::AccountKind`] says which do).
///
/// The guarantees below are for the noise multiplier σ and records of norm at most the clip norm. They hold only while
/// the batches, and the seed, stay secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Scheme {
    /// Poisson sampling: each record joins each round with probability q, independently.
    ///
    /// # Formal guarantee
    /// A record's indicator of joining is Bernoulli(q), independent over rounds and records. With independent noise each
    /// round costs (1−q)N(0, σ²) + qN(1, σ²) against N(0, σ²), in both directions; the rounds compose. It holds under
    /// every neighbouring relation. With a cap the round is the truncated Poisson mechanism, and the number of records is
    /// public.
    Poisson {
        /// q, from 2⁻⁴⁰ to 1.
        sampling_probability: f64,
        /// B, the most records of a batch.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cap: Option<u64>,
    },
    /// Cyclic Poisson sampling: p groups that don't depend on the data; each record of group r joins each round ≡ r (mod p)
    /// with probability p·q.
    ///
    /// # Formal guarantee
    /// Two participations of a record are a multiple of p rounds apart, so under a p-banded C its contributions don't
    /// overlap, and n rounds cost as much as ⌈n/p⌉ Poisson-sampled rounds of probability p·q and noise multiplier σ over the
    /// largest column norm. It holds under every neighbouring relation for [`Partition::Independent`], and under zeroing out
    /// and replacing for [`Partition::EqualSplit`]. With a cap these are truncated Poisson rounds of a group's public size,
    /// for groups of one size or a single one; no account is known of a cap beside independent groups.
    CyclicPoisson {
        /// p, the bands of the strategy.
        bands: u64,
        /// q, the average over all rounds; p·q is at most 1.
        sampling_probability: f64,
        /// The way in which records are put into groups.
        partition: Partition,
        /// B, the most records of a batch.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cap: Option<u64>,
    },
    /// Balls-in-bins: each record gets one of b batches once, and joins that one in every epoch.
    ///
    /// # Formal guarantee
    /// A record's batch is uniform on 0..b, independent over records, and its rounds are the b-th ones from there. For C ≥ 0
    /// the run costs at most (1/b)Σ_i N(m_i, σ²I) against N(0, σ²I), m_i the sum of its columns (Choquette-Choo et al. 2024,
    /// arXiv:2410.06266, Lemma 3.2), which Monte Carlo accounts for under zeroing out. A cap has no such account: a record in
    /// a full batch pushes others out. Without relying on the draw, participations are b apart, capped or not.
    BallsInBins {
        /// b, the batches of an epoch.
        batches_per_epoch: u64,
        /// B, the most records of a batch.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cap: Option<u64>,
    },
    /// b-min-sep: each record joins a round with probability q, independently, unless it joined one of the b − 1 rounds
    /// before.
    ///
    /// # Formal guarantee
    /// A record's rounds are a renewal process, independent over records, with steps of b − 1 plus a geometric number of
    /// rounds. For C ≥ 0 with at most b bands, the mixture of N(m_S, σ²I) over its sets S of rounds against N(0, σ²I)
    /// dominates, which Monte Carlo accounts for under zeroing out. A cap has no such account: a record in a full batch
    /// pushes others out. Without relying on the draw, participations are at least b apart, capped or not.
    BMinSep {
        /// b, the least distance of two rounds of a record.
        min_sep: u64,
        /// q of a record that may join; on average a record joins q/(1 + q(b − 1)) of all rounds.
        sampling_probability: f64,
        /// True where the run begins as if batches had always been formed, so that all rounds are alike. Otherwise all records
        /// are free to join at first.
        warm_start: bool,
        /// B, the most records of a batch.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cap: Option<u64>,
    },
    /// Random allocation: each record joins k rounds of each epoch of b, drawn anew in every epoch.
    ///
    /// # Formal guarantee
    /// All sets of k of the b rounds of an epoch are equally likely, independent over epochs and records. With independent
    /// noise an epoch costs at most the mixture of N(1_S, σ²I) over these sets S against N(0, σ²I), in both directions, and
    /// epochs compose. It holds under zeroing out, adding and removing, without a cap. Without relying on the draw, a record takes at most k rounds of each epoch, in any order.
    RandomAllocation {
        /// b, the batches of an epoch.
        batches_per_epoch: u64,
        /// k, the rounds of a record in each epoch.
        participations: u64,
        /// B, the most records of a batch.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cap: Option<u64>,
    },
    /// Fixed order: records are shuffled once, cut into b batches of one size (or one more), and taken in turn.
    ///
    /// # Formal guarantee
    /// Two participations of a record are exactly a multiple of b rounds apart, and there are at most ⌈n/b⌉. Nothing is
    /// amplified: the guarantee is that of the participation rule, whether or not the order is known. It holds under zeroing
    /// out and replacing.
    FixedOrder {
        /// b, the batches of an epoch.
        min_sep: u64,
    },
    /// A greedy contribution bound over [`crate::Owners`]: records stand in line in a drawn order, the least used first. Each
    /// joins a round if all of its owners may, until the batch is full. An owner may join k rounds, b apart, with m
    /// records each. Where too few records may join, the batch is smaller.
    ///
    /// # Formal guarantee
    /// Who owns what is public and the same in neighbouring data sets, and batches depend on that and the seed alone. All
    /// records of one owner, those that others own too, are in at most k rounds, at least b apart, m of them in each, so that
    /// the owner moves a sum by at most m clip norms. Nothing is amplified: the guarantee is that of the
    /// participation rule at m times the sensitivity, whether or not the batches are known. It holds under zeroing out
    /// all of an owner's records and under replacing what they say.
    ContributionBound {
        /// The records of a batch.
        batch_size: u64,
        /// b, the least distance of two rounds of an owner.
        min_sep: u64,
        /// k, the most rounds of an owner.
        max_participations: u64,
        /// m, the most records of an owner in one batch.
        #[serde(default = "one")]
        records_per_batch: u64,
    },
    /// Example-level sampling (ELS) of users: of each user G records are chosen once, and each joins each round with
    /// probability q, independently. Of [`crate::Owners`] records are kept in a drawn order, each if all of its owners have
    /// fewer than G so far.
    ///
    /// # Formal guarantee
    /// A user's number of records in a round is at most Bin(G, q), independent over rounds. With independent noise each
    /// round costs N(Bin(G, q), σ²) against N(0, σ²), for the user as a whole (Charles et al. 2024, arXiv:2407.07737). It
    /// makes no difference whether others own these records too, as long as who owns what is public and stays the same: so
    /// it holds for owners under zeroing out.
    Els {
        /// G, the most records of a user.
        group_size: u64,
        /// q of each record.
        sampling_probability: f64,
    },
    /// User-level sampling (ULS): users join by the inner scheme, each with G of their records, drawn anew every time.
    ///
    /// # Formal guarantee
    /// The guarantee of the inner scheme, with users in the place of records, where the sum of a user's records in a round is
    /// clipped as a whole.
    Uls {
        /// G, the most records that a user contributes to a round.
        group_size: u64,
        /// The scheme by which users join.
        users: Box<Scheme>,
    },
}

/// The way in which records are put into groups for cyclic Poisson sampling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Partition {
    /// Groups of one size, or one more. One record more moves others, so it holds for zeroing out and replacing only.
    EqualSplit,
    /// A random group for each record, independently. It holds for every neighbouring relation.
    Independent,
}

fn one() -> u64 {
    1
}

impl Scheme {
    /// Returns the name of the scheme, as it is written in JSON.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Poisson { .. } => "poisson",
            Self::CyclicPoisson { .. } => "cyclic-poisson",
            Self::BallsInBins { .. } => "balls-in-bins",
            Self::BMinSep { .. } => "b-min-sep",
            Self::RandomAllocation { .. } => "random-allocation",
            Self::FixedOrder { .. } => "fixed-order",
            Self::ContributionBound { .. } => "contribution-bound",
            Self::Els { .. } => "els",
            Self::Uls { .. } => "uls",
        }
    }

    /// Returns the cap B, to which smaller batches are padded; for user-level sampling, that of its inner scheme.
    #[must_use]
    pub fn cap(&self) -> Option<u64> {
        match self {
            Self::Poisson { cap, .. }
            | Self::CyclicPoisson { cap, .. }
            | Self::BallsInBins { cap, .. }
            | Self::BMinSep { cap, .. }
            | Self::RandomAllocation { cap, .. } => *cap,
            Self::ContributionBound { batch_size, .. } => Some(*batch_size),
            Self::FixedOrder { .. } | Self::Els { .. } => None,
            Self::Uls { users, .. } => users.cap(),
        }
    }

    /// Returns whether the scheme needs a population of users.
    #[must_use]
    pub fn user_level(&self) -> bool {
        matches!(self, Self::Els { .. } | Self::Uls { .. })
    }
}
