//! What McMahan, Xu, Zhang (2024) and Xu et al. (2023) run in production, and how they print what it costs.

use strategy::{Blt, Strategy};

/// Every ε there is at this δ.
pub const DELTA: f64 = 1e-10;

/// Clients a round, as far as not said otherwise; noise multipliers are proportional to it.
pub const REPORT_GOAL: u64 = 6500;

/// σ of trees and of BLTs made for b = 400 and b = 1000, at [`REPORT_GOAL`] clients a round.
pub const TREE_NOISE: f64 = 7.0;
pub const B400_NOISE: f64 = 7.379;
pub const B1000_NOISE: f64 = 8.681;

/// BLTs of McMahan, Xu, Zhang (2024), App. A, by the min-sep that they were made for: (θ, ω).
type Parameters = ([f64; 4], [f64; 4]);
const B100: Parameters = (
    [0.989739971007307, 0.7352001759538236, 0.16776199983448145, 0.1677619998016191],
    [0.20502892852480875, 0.23357939425278557, 0.03479503245420878, 0.03479509876050538],
);
const B400: Parameters = (
    [0.9999999999921251, 0.9944453083640997, 0.8985923474607591, 0.4912001418098778],
    [0.0070314825502323835, 0.10613806907600574, 0.1898159060327625, 0.1966594748073734],
);
const B1000: Parameters = (
    [0.9999999999983397, 0.9973412136664378, 0.9584629472313878, 0.6581796870749317],
    [0.008657392263671862, 0.05890891298180163, 0.14548176930698697, 0.2770117005326523],
);

/// A BLT of McMahan, Xu, Zhang (2024), App. A.
#[derive(Clone, Copy, Debug)]
pub enum Production {
    B100,
    B400,
    B1000,
}

impl Production {
    pub fn strategy(self) -> anyhow::Result<Strategy> {
        let (theta, omega) = match self {
            Self::B100 => B100,
            Self::B400 => B400,
            Self::B1000 => B1000,
        };
        Ok(Strategy::Blt(Blt::new(theta.to_vec(), omega.to_vec())?))
    }
}

/// A number as it is printed, with its digits after the point.
#[derive(Clone, Copy, Debug)]
pub struct Printed(pub f64, pub usize);

impl Printed {
    /// Whether `exact` is printed so: the papers round to the nearest in some places and up in others.
    pub fn is_of(self, exact: f64) -> bool {
        let unit = 10f64.powi(self.1 as i32);
        let steps = (self.0 * unit).round();
        let exact = exact * unit;
        exact.round() == steps || exact.ceil() == steps
    }

    pub fn shown(self) -> String {
        format!("{:.*}", self.1, self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_is_to_the_nearest_or_up() {
        let printed = Printed(0.25, 2);
        assert!([0.2449, 0.25, 0.2549].iter().all(|exact| printed.is_of(*exact)));
        assert!([0.2399, 0.2551, 0.26].iter().all(|exact| !printed.is_of(*exact)));
        assert_eq!(Printed(9.0, 2).shown(), "9.00");
    }
}
