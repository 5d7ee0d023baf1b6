//! The mechanisms to evaluate, each with the sizes worth trying.

use strategy::MechanismKind;
use strategy::optimize::Family;

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
        let mechanism = match size {
            Some(size) => format!("{} {size}", kind.name()),
            None => kind.name().to_owned(),
        };
        format!("{mechanism}, {}", self.sampling.name())
    }
}

/// Most numbers of a general band matrix that is searched unasked: beyond, a search takes minutes.
const BAND_MF_NUMBERS: u64 = 1 << 19;
/// A Toeplitz strategy within this factor of the least error may be the least as a general band matrix. A choice, not a bound:
/// n = 1000, min_sep 100 and n = 2000, min_sep 100 gain 4 % by the refinement (`rustle plan suggest --all`).
const NEAR: f64 = 1.15;
/// Most bands of a Toeplitz strategy: beyond, more bands gain nothing that shows.
const MOST_BANDS: u64 = 1024;
/// Most rounds of a dense strategy, which costs n³ operations in each step and n² numbers in the plan.
const DENSE_ROUNDS: u64 = 128;

/// Returns all candidates but those of [`general_bands`].
pub(crate) fn all(request: &Request) -> Vec<Candidate> {
    let mut all = in_order(request);
    if let Some(q) = request.sampling_probability {
        all.extend(sampled(request, q));
    }
    all
}

/// Returns the general band matrices that may come near the least error found. Each is a refinement of the Toeplitz strategy
/// of as many bands, which gains some per cent and takes most of a search's time; those whose Toeplitz strategy is far off
/// are not searched. Where no Toeplitz strategy can serve, as with learning rates, all band counts are.
pub(crate) fn general_bands(request: &Request, found: &[Entry]) -> Vec<Candidate> {
    let in_order = || found.iter().filter(|entry| matches!(entry.sampling, Sampling::MinSep(_)));
    let least = |is_fitting: bool| {
        let counted = in_order().filter(|entry| entry.fits || !is_fitting);
        counted.map(|entry| entry.error).fold(f64::INFINITY, f64::min)
    };
    let is_toeplitz = |entry: &Entry| entry.mechanism == MechanismKind::BandToeplitz.name();
    let toeplitz = in_order().filter(|entry| is_toeplitz(entry));
    let near = toeplitz.filter(|entry| entry.error <= NEAR * least(entry.fits));
    let bands: Vec<u64> = if in_order().any(is_toeplitz) {
        near.filter_map(|entry| entry.size).collect()
    } else {
        ladder(widest(request).min(MOST_BANDS))
    };
    let is_affordable = |bands: &u64| request.iterations.saturating_mul(*bands) <= BAND_MF_NUMBERS;
    let affordable = bands.into_iter().filter(is_affordable);
    let sampling = Sampling::MinSep(request.participation);
    let method = |bands: u64| Method::Search(Family::BandMfByEpoch { bands: bands as usize });
    affordable.map(|bands| Candidate { method: method(bands), sampling }).collect()
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
