//! Random allocation: each record joins k of the t batches of an epoch, drawn anew in every epoch, on its own.
//!
//! Let x be the t noisy sums of an epoch in units of σ, along the record. Without the record they are unit Gaussians; with
//! it, one of them is moved by 1/σ. The ratio of the two densities is the mean of t ratios,
//!
//! ```text
//! W = (1/t)·Σ_i e^{x_i/σ − 1/(2σ²)},   δ_remove(ε) = E[(W − e^ε)₊],   δ_add(ε) = E[(1 − e^ε·W)₊]
//! ```
//!
//! where both expectations are those without the record. Both integrands are convex in W, so W's law alone is needed, and a law
//! that bounds it in convex order bounds every δ, of both directions and of every composition. The law of the sum is built by
//! doubling on a grid, each time spread (pessimistic) or gathered (optimistic) such that means stay.
//!
//! * Adaptive rounds cost no more: a round whose sum moves by a vector v of norm at most 1 is a function of the round
//!   above and of fresh noise.
//! * k of t costs no more than k independent epochs of 1 of ⌊t/k⌋ or ⌈t/k⌉: put the batches into k blocks of these sizes in an order
//!   that is drawn at random and published, and let the record join one batch of each block. All sets of k are equally
//!   likely then, too, and publishing the blocks only adds knowledge (Feldman and Shenfeld 2025, arXiv:2502.08202; the
//!   distributions of losses are the idea of the same authors, arXiv:2602.17284).
//! * It is the law of records that draw on their own. A loader that permutes the records and cuts the permutation into batches
//!   of one size moves another record wherever it moves one, and this is no account of it.

mod grid;
mod law;
mod lower;
mod several;

use self::grid::Ratios;
pub use self::law::Bound;
pub use self::lower::epsilon_at_least;
use crate::error::{AccountingError, Result, positive};
use crate::pld::{Loss, Losses, Pair, Round};

/// Most batches of an epoch.
pub const MAX_BATCHES: u64 = 1 << 32;

/// More noise, or more batches, than this counts as this much, which costs more: ratios that are all but 1 leave f64 few
/// digits.
const MOST_NOISE: f64 = 1e4;
const MOST_BATCHES: u64 = 1 << 26;

/// The noise multiplier below which nothing is amplified here: losses are so large that f64 holds no law of their ratios.
pub const LEAST_NOISE: f64 = 0.1;

/// One epoch of random allocation: the losses of both directions, of one record in one of the batches.
#[derive(Debug, Clone, PartialEq)]
pub struct Epoch {
    /// The data set with the record against the one without.
    pub remove: Losses,
    /// The data set without the record against the one with it.
    pub add: Losses,
}

impl Epoch {
    /// Builds the losses of one record in one of `batches` batches, bounded from one side.
    ///
    /// # Errors
    /// [`AccountingError::Invalid`] unless σ is at least 0.1 and there are 1 to 2³² batches.
    pub fn new(noise_multiplier: f64, batches: u64, bound: Bound) -> Result<Self> {
        check(noise_multiplier, batches, 1)?;
        if noise_multiplier < LEAST_NOISE {
            let allowed = "at least 0.1 for the losses of random allocation";
            return Err(AccountingError::Invalid {
                what: "noise multiplier",
                value: noise_multiplier,
                allowed,
            });
        }
        if bound == Bound::Optimistic && (noise_multiplier > MOST_NOISE || batches > MOST_BATCHES) {
            let setting = format!("{batches} batches and a noise multiplier of {noise_multiplier}");
            return Err(AccountingError::OutOfReach {
                what: "a lower bound under random allocation",
                setting,
            });
        }
        let batches = batches.min(MOST_BATCHES);
        let law = Ratios::new(noise_multiplier.min(MOST_NOISE), batches).sum(bound);
        let ln_batches = (batches as f64).ln();
        let zero = law.points.iter().filter(|(value, _)| *value == 0.0).map(|(_, mass)| mass).sum();
        let ratios = || law.points.iter().filter(|(value, _)| *value > 0.0);
        let remove: Vec<Loss> = ratios()
            .map(|(value, mass)| (value.ln() - ln_batches, mass.ln()))
            .map(|(loss, ln_mass)| Loss { loss, ln_mass: ln_mass + loss })
            .collect();
        let add: Vec<Loss> = ratios()
            .map(|(value, mass)| Loss { loss: ln_batches - value.ln(), ln_mass: mass.ln() })
            .collect();
        Ok(Self { remove: whole(remove, law.above / batches as f64)?, add: whole(add, zero)? })
    }
}

/// Builds losses and scales them such that all masses sum to 1 to the last digit: after some convolutions they are off by
/// more than that, by rounding alone.
fn whole(losses: Vec<Loss>, infinite: f64) -> Result<Losses> {
    let sum: f64 = losses.iter().map(|one| one.ln_mass.exp()).sum();
    let scale = -(sum + infinite).ln();
    let losses = losses.into_iter().map(|one| Loss { ln_mass: one.ln_mass + scale, ..one });
    Losses::of_logarithms(losses.collect(), infinite)
}

/// Returns the rounds, with their counts, whose composition bounds one epoch in which a record joins `participations` of
/// `batches` batches: for each the one with the record against the one without, and the reverse.
///
/// # Errors
/// [`AccountingError::Invalid`] naming the number that is out of range.
pub(crate) fn rounds(
    noise_multiplier: f64,
    batches: u64,
    participations: u64,
) -> Result<Vec<(Round, Round, u64)>> {
    check(noise_multiplier, batches, participations)?;
    let size = batches / participations;
    let larger = batches % participations;
    let blocks = [(size, participations - larger), (size + 1, larger)];
    let kinds = blocks.into_iter().filter(|(_, count)| *count > 0);
    kinds
        .map(|(size, count)| {
            if size == 1 || noise_multiplier < LEAST_NOISE {
                let round = Round::from(Pair::gaussian(1.0 / noise_multiplier)?);
                return Ok((round.clone(), round, count));
            }
            let epoch = Epoch::new(noise_multiplier, size, Bound::Pessimistic)?;
            Ok((epoch.remove.into(), epoch.add.into(), count))
        })
        .collect()
}

fn check(noise_multiplier: f64, batches: u64, participations: u64) -> Result<()> {
    positive("noise multiplier", noise_multiplier)?;
    let invalid = |what, value: u64, allowed| AccountingError::Invalid { what, value: value as f64, allowed };
    if batches == 0 || batches > MAX_BATCHES {
        return Err(invalid("batches per epoch", batches, "1 to 2^32"));
    }
    if participations == 0 || participations > batches {
        return Err(invalid("participations in an epoch", participations, "1 to the batches per epoch"));
    }
    Ok(())
}
