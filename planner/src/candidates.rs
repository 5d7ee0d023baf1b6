//! The mechanisms to evaluate, each with the sizes worth trying.

use strategy::optimize::Family;
use strategy::{MechanismKind, Objective, Workload};

use crate::amplification::bands_to_try;
use crate::entry::Entry;
use crate::request::Request;
use crate::sampling::Sampling;

/// A mechanism to optimize, with the way its batches are formed.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    pub method: Method,
    pub sampling: Sampling,
}

/// The way to a candidate's strategy.
#[derive(Debug, Clone)]
pub(crate) enum Method {
    /// A search over this family, or its evaluation where it has no parameters.
    Search(Family),
    /// The optimal band-Toeplitz column for one participation, with every column of C scaled to norm one.
    Normalised { bands: usize },
}

impl Candidate {
    /// Returns the mechanism, its size and its sampling, for people.
    pub fn name(&self) -> String {
        let (kind, size) = match self.method {
            Method::Search(family) => (family.kind(), family.size()),
            Method::Normalised { bands } => (MechanismKind::BandToeplitz, Some(bands)),
        };
        format!("{}, {}", crate::entry::name(kind.name(), size, self.is_scaled()), self.sampling.name())
    }

    /// Returns whether the search refines a Toeplitz strategy or a BLT that is evaluated without.
    pub fn is_refinement(&self) -> bool {
        self.is_scaled() || matches!(self.method, Method::Search(Family::BandMfByEpoch { .. }))
    }

    /// Returns whether the search is for scales of columns beside a strategy that is evaluated without.
    pub fn is_scaled(&self) -> bool {
        matches!(self.method, Method::Search(Family::BandToeplitzByEpoch { .. } | Family::BltByEpoch { .. }))
    }
}

/// Most numbers of a general band matrix that is searched unasked: beyond, a search takes minutes.
const BAND_MF_NUMBERS: u64 = 1 << 19;
/// A Toeplitz strategy within this factor of the least error may be the least as a general band matrix. A choice, not a bound:
/// n = 1000, min_sep 100 and n = 2000, min_sep 100 gain 4 % by the refinement (`rustle plan suggest --all`).
const NEAR: f64 = 1.15;
/// Most bands of a Toeplitz strategy: beyond, more bands gain nothing that shows.
const MOST_BANDS: u64 = 1024;
/// Most rounds × bands of a Toeplitz strategy with scaled columns, which are normalised besides: what runs has a column of its own
/// for every round, and a grid's lags are rounded for each row.
const SCALED_NUMBERS: u64 = 1 << 22;
/// Most rounds × participations² of a search for scales, each of whose steps takes as many products.
const SCALED_PRODUCTS: u64 = 1 << 26;
/// What one more buffer must gain for scales to be sought for it too.
const BUFFER_GAIN: f64 = 1e-3;
/// Most rounds of a dense strategy, which costs n³ operations in each step and n² numbers in the plan.
const DENSE_ROUNDS: u64 = 128;

/// Returns all candidates but those of [`refinements`].
pub(crate) fn all(request: &Request) -> Vec<Candidate> {
    let mut all = in_order(request);
    if let Some(q) = request.sampling_probability {
        all.extend(sampled(request, q));
    }
    all
}

/// Returns the candidates that refine a strategy found, where that may come near the least error.
pub(crate) fn refinements(request: &Request, found: &[Entry]) -> Vec<Candidate> {
    let mut all = general_bands(request, found);
    all.extend(scaled(request, found));
    all
}

/// Returns the Toeplitz strategies and BLTs to seek scales of columns for: those near the least error, of BLTs one for each
/// number of buffers that gains something. Scales gain for the rms error of prefix sums and several participations alone; BLTs
/// with scales have no rows on a grid.
fn scaled(request: &Request, found: &[Entry]) -> Vec<Candidate> {
    let n = request.iterations;
    let k = request.participation.in_rounds(n);
    let is_sought = k >= 2
        && request.objective == Objective::Rms
        && matches!(request.workload, Workload::Prefix)
        && n.saturating_mul(k).saturating_mul(k) <= SCALED_PRODUCTS;
    if !is_sought {
        return Vec::new();
    }
    let near = near(found);
    let of = |kind: MechanismKind| near.iter().filter(move |entry| entry.mechanism == kind.name());
    let sizes = of(MechanismKind::BandToeplitz).filter_map(|entry| entry.size);
    let toeplitz = sizes.filter(|bands| n.saturating_mul(*bands) <= SCALED_NUMBERS);
    let mut families: Vec<Family> =
        toeplitz.map(|bands| Family::BandToeplitzByEpoch { bands: bands as usize }).collect();
    if !request.on_grid {
        let mut blts: Vec<&&Entry> = of(MechanismKind::Blt).collect();
        blts.sort_by_key(|entry| entry.size);
        let mut least = f64::INFINITY;
        for (buffers, error) in blts.iter().filter_map(|entry| Some((entry.size?, entry.error))) {
            if error < least * (1.0 - BUFFER_GAIN) {
                families.push(Family::BltByEpoch { buffers: buffers as usize });
                least = error;
            }
        }
    }
    let sampling = Sampling::MinSep(request.participation);
    families.into_iter().map(|family| Candidate { method: Method::Search(family), sampling }).collect()
}

fn in_given_order(found: &[Entry]) -> impl Iterator<Item = &Entry> {
    found.iter().filter(|entry| matches!(entry.sampling, Sampling::MinSep(_)))
}

/// Returns the entries without sampling within [`NEAR`] of the least error of those that fit alike.
fn near(found: &[Entry]) -> Vec<&Entry> {
    let least = |is_fitting: bool| {
        let counted = in_given_order(found).filter(|entry| entry.fits || !is_fitting);
        counted.map(|entry| entry.error).fold(f64::INFINITY, f64::min)
    };
    let limits = [least(false), least(true)].map(|least| NEAR * least);
    in_given_order(found).filter(|entry| entry.error <= limits[usize::from(entry.fits)]).collect()
}

/// Returns the general band matrices that may come near the least error found. Each is a refinement of the Toeplitz strategy
/// of as many bands, which gains some per cent and takes most of a search's time; those whose Toeplitz strategy is far off
/// are not searched. Where no Toeplitz strategy can serve, as with learning rates, all band counts are.
fn general_bands(request: &Request, found: &[Entry]) -> Vec<Candidate> {
    let is_affordable = |bands: &u64| request.iterations.saturating_mul(*bands) <= BAND_MF_NUMBERS;
    let is_toeplitz = |entry: &&Entry| entry.mechanism == MechanismKind::BandToeplitz.name();
    let bands: Vec<u64> = if in_given_order(found).any(|entry| is_toeplitz(&entry)) {
        let toeplitz = near(found).into_iter().filter(is_toeplitz);
        let sized = toeplitz.filter_map(|entry| Some((entry.size?, entry.fits)));
        widest_of_like(sized.filter(|(bands, _)| is_affordable(bands)).collect())
    } else {
        ladder(widest(request).min(MOST_BANDS)).into_iter().filter(is_affordable).collect()
    };
    let sampling = Sampling::MinSep(request.participation);
    let method = |bands: u64| Method::Search(Family::BandMfByEpoch { bands: bands as usize });
    bands.into_iter().map(|bands| Candidate { method: method(bands), sampling }).collect()
}

/// Returns the band counts, each with whether it fits, but those that one less than an eighth larger stands for, which fits alike:
/// both searches would take as long, and give as much.
fn widest_of_like(mut sized: Vec<(u64, bool)>) -> Vec<u64> {
    sized.sort_unstable();
    let is_like = |(bands, fits): (u64, bool), wider: (u64, bool)| fits == wider.1 && 8 * wider.0 < 9 * bands;
    let is_kept = |i: &usize| sized.get(i + 1).is_none_or(|wider| !is_like(sized[*i], *wider));
    (0..sized.len()).filter(is_kept).map(|i| sized[i].0).collect()
}

/// Without amplification, under the request's participation.
fn in_order(request: &Request) -> Vec<Candidate> {
    let n = request.iterations;
    let rule = request.participation;
    let mut methods = vec![Method::Search(Family::Identity), Method::Search(Family::Tree)];
    methods.extend([2, 3, 4, 6].map(|buffers| Method::Search(Family::Blt { buffers })));
    for bands in ladder(widest(request).min(MOST_BANDS)) {
        methods.push(Method::Search(Family::BandToeplitz { bands: bands as usize }));
    }
    for bands in [4, 8].into_iter().filter(|bands| *bands <= n) {
        methods.push(Method::Search(Family::BandInverse { bands: bands as usize }));
    }
    methods.push(Method::Search(Family::LambdaCgd));
    if n <= DENSE_ROUNDS {
        methods.push(Method::Search(Family::Dense));
    }
    let sampling = Sampling::MinSep(rule);
    methods.into_iter().map(|method| Candidate { method, sampling }).collect()
}

/// Returns the most bands of which one user's columns do not overlap.
fn widest(request: &Request) -> u64 {
    let n = request.iterations;
    let rule = request.participation;
    if rule.in_rounds(n) == 1 { n } else { rule.min_sep.min(n) }
}

/// 4, 8, 16, … and the widest itself.
fn ladder(widest: u64) -> Vec<u64> {
    let mut bands: Vec<u64> = (2..63).map(|i| 1 << i).take_while(|bands| *bands < widest).collect();
    bands.push(widest);
    bands
}

/// Amplified by cyclic Poisson sampling; one band is DP-SGD.
fn sampled(request: &Request, q: f64) -> Vec<Candidate> {
    let with_bands = |bands: u64| {
        let sampling = Sampling::CyclicPoisson { bands, sampling_probability: q };
        let method = match bands {
            1 => Method::Search(Family::Identity),
            _ => Method::Normalised { bands: bands as usize },
        };
        Candidate { method, sampling }
    };
    bands_to_try(request.iterations, q).into_iter().map(with_bands).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_like_band_counts_the_widest_is_searched() {
        assert_eq!(widest_of_like(vec![(262, true), (128, true), (256, true)]), [128, 262]);
        // An eighth more is another strategy, and so is one that does not fit.
        assert_eq!(widest_of_like(vec![(288, true), (256, true)]), [256, 288]);
        assert_eq!(widest_of_like(vec![(262, false), (256, true)]), [256, 262]);
    }
}
