//! The mechanisms to weigh, each with the sizes worth trying.

use strategy::optimize::Family;

use crate::amplified::bands_to_try;
use crate::entry::Sampling;
use crate::request::Request;

/// A mechanism to optimise, with the way its batches are formed.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    pub make: Make,
    pub sampling: Sampling,
}

#[derive(Debug, Clone)]
pub(crate) enum Make {
    /// Searched for, or evaluated where it has no parameters, with this family.
    Search(Family),
    /// The optimal band-Toeplitz column for one participation, every column of C scaled to norm one.
    Normalised { bands: usize },
}

impl Candidate {
    /// The mechanism and its sampling, as people say it.
    pub fn name(&self) -> String {
        let mechanism = match &self.make {
            Make::Search(Family::Blt { buffers }) => format!("blt {buffers}"),
            Make::Search(
                family @ (Family::BandToeplitz { bands }
                | Family::BandMf { bands }
                | Family::BandInverse { bands }),
            ) => format!("{} {bands}", family.name()),
            Make::Search(family) => family.name().to_owned(),
            Make::Normalised { bands } => format!("band-toeplitz {bands}"),
        };
        format!("{mechanism}, {}", self.sampling.name())
    }
}

/// Numbers of a general band matrix that are searched without being asked.
const BAND_MF_NUMBERS: u64 = 1 << 19;
/// Bands of a Toeplitz strategy beyond which the next ones bring nothing that shows.
const MOST_BANDS: u64 = 1024;
/// Dense strategies cost n³ a step, and n² numbers in the plan.
const DENSE_ROUNDS: u64 = 128;

pub(crate) fn all(request: &Request) -> Vec<Candidate> {
    let mut all = in_order(request);
    if let Some(q) = request.sampling_probability {
        all.extend(sampled(request, q));
    }
    all
}

/// Without amplification, under the request's participation.
fn in_order(request: &Request) -> Vec<Candidate> {
    let n = request.iterations;
    let rule = request.participation;
    let mut made = vec![Make::Search(Family::Identity), Make::Search(Family::Tree)];
    made.extend([2, 3, 4, 6].map(|buffers| Make::Search(Family::Blt { buffers })));
    let widest = if rule.in_rounds(n) == 1 { n } else { rule.min_sep.min(n) };
    for bands in ladder(widest.min(MOST_BANDS)) {
        made.push(Make::Search(Family::BandToeplitz { bands: bands as usize }));
        if n.saturating_mul(bands) <= BAND_MF_NUMBERS {
            made.push(Make::Search(Family::BandMf { bands: bands as usize }));
        }
    }
    for bands in [4, 8].into_iter().filter(|bands| *bands <= n) {
        made.push(Make::Search(Family::BandInverse { bands: bands as usize }));
    }
    made.push(Make::Search(Family::LambdaCgd));
    if n <= DENSE_ROUNDS {
        made.push(Make::Search(Family::Dense));
    }
    let sampling = Sampling::MinSep(rule);
    made.into_iter().map(|make| Candidate { make, sampling }).collect()
}

/// 4, 8, 16, … and the widest itself.
fn ladder(widest: u64) -> Vec<u64> {
    let mut bands: Vec<u64> = (2..63).map(|i| 1 << i).take_while(|bands| *bands < widest).collect();
    bands.push(widest);
    bands
}

/// Amplified by cyclic Poisson sampling; one band is DP-SGD.
fn sampled(request: &Request, q: f64) -> Vec<Candidate> {
    let of = |bands: u64| {
        let sampling = Sampling::CyclicPoisson { bands, sampling_probability: q };
        let make = match bands {
            1 => Make::Search(Family::Identity),
            _ => Make::Normalised { bands: bands as usize },
        };
        Candidate { make, sampling }
    };
    bands_to_try(request.iterations, q).into_iter().map(of).collect()
}
