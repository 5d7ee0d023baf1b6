//! The tilt, range and spacing of the window in which a query's answer lies, from the cumulants of the rounds.

use super::cumulant::{Cumulant, Moments};

/// Most places of one window and most cells of one round: 8 MiB of f64 each.
pub(super) const MAX_PLACES: f64 = (1u64 << 20) as f64;

/// The tilted mass that may lie outside a window is e^−this.
const LN_OUTSIDE: f64 = 26.0;

/// The tilted mass that rounds may lose at their low end is about e^−this, all rounds together; `cells` has the bound that
/// is charged for.
const LN_DROPPED: f64 = 44.0;

/// The farthest that an answer may lie in the tail of the tilted loss, as −ln of its likelihood.
const MAX_LN_AWAY: f64 = 8.0;
/// The precision of f64 that is left for the tail and the rounds together, as ln, beside the accuracy of an answer.
const LN_SPARE_PRECISION: f64 = 20.0;

/// The rounding of a transform may be at most e^−this of δ.
const LN_ROUNDED: f64 = 9.0;
/// The rounding of a transform for each round, as ln of a share of the tilted mass.
const LN_ROUNDING: f64 = -34.0;

/// Largest tilt: losses that need more are closer together than f64 can resolve.
const MAX_TILT: f64 = 1e12;

/// Most times that a search for a tilt goes down to a quarter: 40 of them are a factor of 10²⁴.
const MAX_DESCENTS: usize = 40;

/// The rounds' cumulants with their counts.
#[derive(Debug, Clone)]
pub(super) struct CumulantSum<'a> {
    pub parts: &'a [(Cumulant, u64)],
}

/// The tilt for a query, and the composed loss under it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Saddle {
    pub theta: f64,
    /// K(θ) of the composition, and the mean and variance of the tilted loss.
    pub moments: Moments,
}

/// The range of losses to compose in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub low: f64,
    pub high: f64,
    /// The extra tilt from whose Chernoff bound `high` follows.
    pub reach: f64,
}

impl CumulantSum<'_> {
    pub(super) fn at(&self, theta: f64) -> Moments {
        self.parts
            .iter()
            .fold(Moments::default(), |sum, (cumulant, count)| sum.plus(cumulant.at(theta), *count as f64))
    }

    fn rounds(&self) -> f64 {
        self.parts.iter().map(|(_, count)| *count as f64).sum()
    }

    pub(super) fn saddle(&self, theta: f64) -> Saddle {
        Saddle { theta, moments: self.at(theta) }
    }

    /// Returns the tilt at which Chernoff's bound of P(L ≥ mean of the tilted L) is e^{`ln_delta`}. Where δ falls so
    /// steeply that ε no longer depends on it, as near the largest loss, a smaller tilt will do.
    pub(super) fn for_delta(&self, ln_delta: f64, steep: f64) -> Saddle {
        self.search(|theta, at| at.value - theta * at.mean <= ln_delta || theta * at.mean >= steep)
    }

    /// Returns the tilt whose mean loss is ε; a tilt of 0 where ε is below the mean.
    pub(super) fn for_epsilon(&self, epsilon: f64, steep: f64) -> Saddle {
        if self.at(0.0).mean >= epsilon {
            return self.saddle(0.0);
        }
        self.search(|theta, at| at.mean >= epsilon || theta * epsilon >= steep)
    }

    /// Returns the tilt at which Chernoff's bound of Q(L ≥ mean of the tilted L) is e^{`ln_rate`}, but no less than 0: at
    /// 0 the window already reaches far into the losses that are likely under Q.
    pub(super) fn for_false_positives(&self, ln_rate: f64, steep: f64) -> Saddle {
        let reached = |theta: f64, at: Moments| {
            at.value - (theta + 1.0) * at.mean <= ln_rate || theta * at.mean >= steep
        };
        if reached(0.0, self.at(0.0)) { self.saddle(0.0) } else { self.search(reached) }
    }

    /// Finds the smallest tilt, to a percent, at which a monotone condition turns true.
    fn search(&self, reached: impl Fn(f64, Moments) -> bool) -> Saddle {
        let spread = self.at(0.0).variance.sqrt().max(1.0 / MAX_TILT);
        let mut high = 1e-3 / spread;
        while high < MAX_TILT && !reached(high, self.at(high)) {
            high *= 4.0;
        }
        // A condition that holds at once may hold far below as well: the loss of rare records spreads very far.
        for _ in 0..MAX_DESCENTS {
            if !reached(high / 4.0, self.at(high / 4.0)) {
                break;
            }
            high /= 4.0;
        }
        let mut low = high / 4.0;
        while high / low > 1.01 {
            let middle = (high * low).sqrt();
            if reached(middle, self.at(middle)) { high = middle } else { low = middle }
        }
        self.saddle(high)
    }

    /// Returns the smallest tilt that still leaves the saddle's mean within e^−8 of the likeliest losses, and rounding far
    /// below δ. Less tilt has lighter tails and so a much smaller window, and e^8 of f64's precision can be spared. Where
    /// a few large losses matter, Chernoff's bound of δ is far too large, and less can be spared than it suggests.
    pub(super) fn relaxed(&self, saddle: Saddle, ln_delta: f64) -> Saddle {
        let Saddle { theta, moments } = saddle;
        let best = moments.value - theta * moments.mean;
        let away = |tilt: f64| self.at(tilt).value - tilt * moments.mean - best;
        let most = (LN_SPARE_PRECISION - self.rounds().ln()).clamp(0.5, MAX_LN_AWAY);
        let most_rounded = ln_delta - LN_ROUNDED - LN_ROUNDING - self.rounds().ln() - best;
        let will_do = |tilt: f64| {
            let away = away(tilt);
            away <= most && away - tilt.ln_1p() <= most_rounded
        };
        let mut low = 0.0;
        let mut high = theta;
        for _ in 0..12 {
            let middle = f64::midpoint(low, high);
            if will_do(middle) { high = middle } else { low = middle }
        }
        self.saddle(if will_do(0.0) { 0.0 } else { high })
    }

    /// Returns a range outside which the tilted loss has at most e^−26 of its mass on either side.
    pub(super) fn span(&self, saddle: Saddle) -> Span {
        let Saddle { theta, moments } = saddle;
        let unit = unit_tilt(LN_OUTSIDE, moments);
        let mut span = Span { low: f64::NEG_INFINITY, high: f64::INFINITY, reach: unit };
        for tilt in tilts(unit) {
            let above = (self.at(theta + tilt).value - moments.value + LN_OUTSIDE) / tilt;
            if above < span.high {
                (span.high, span.reach) = (above, tilt);
            }
            let below = -(self.at(theta - tilt).value - moments.value + LN_OUTSIDE) / tilt;
            span.low = span.low.max(below);
        }
        span
    }

    /// Returns the loss of each round below which the tilted rounds have, all together, at most e^−44 of their mass.
    pub(super) fn floors(&self, theta: f64) -> Vec<f64> {
        let outside = LN_DROPPED + self.rounds().ln();
        let floor = |cumulant: &Cumulant| {
            let at = cumulant.at(theta);
            let unit = unit_tilt(outside, at);
            let below = |tilt: f64| -(cumulant.at(theta - tilt).value - at.value + outside) / tilt;
            tilts(unit).map(below).fold(f64::NEG_INFINITY, f64::max).min(at.mean)
        };
        self.parts.iter().map(|(cumulant, _)| floor(cumulant)).collect()
    }

    /// Returns the spacing h at which the answer is about `tolerance` too large in ε, and whether the bound on memory made
    /// it larger. Spreading grows K(θ) by θ(θ+1)h²/12 a round, so ε by (θ+1)h²/12.
    pub(super) fn spacing(&self, saddle: Saddle, span: Span, floors: &[f64], tolerance: f64) -> (f64, bool) {
        let wanted = (12.0 * tolerance / (self.rounds() * (saddle.theta + 1.0))).sqrt();
        // Cells wider than the loss itself do no harm where all rounds' widths together are within the tolerance.
        let narrow = (saddle.moments.variance.sqrt() / 8.0).max(tolerance / (4.0 * self.rounds().sqrt()));
        let wanted = wanted.min(narrow);
        let widest = self
            .parts
            .iter()
            .zip(floors)
            .map(|((cumulant, _), floor)| cumulant.top_loss() - floor)
            .fold(span.high - span.low, f64::max);
        // Losses of f64 that are all but equal still need cells that differ.
        let top =
            self.parts.iter().map(|(cumulant, _)| cumulant.top_loss().abs()).fold(span.high.abs(), f64::max);
        let least = (widest / MAX_PLACES).max(1e-12 * top).max(1e-100);
        (wanted.max(least), wanted < least)
    }

    /// Widens a range by the spread that moving losses to multiples of h causes over all rounds.
    pub(super) fn widened(&self, span: Span, spacing: f64) -> Span {
        let wander = spacing * self.rounds().sqrt();
        let more = (4.0 * wander).min(spacing * MAX_PLACES / 4.0);
        Span { low: span.low - more, high: span.high + more, reach: span.reach.min(16.0 / wander) }
    }

    /// Returns the largest tilt at which cells of this spacing hardly move the composed loss.
    pub(super) fn most_tilt(&self, spacing: f64) -> f64 {
        (6.0 / self.rounds()).sqrt() / spacing
    }

    /// Estimates the ε at which δ is the one that the tilt was searched for.
    pub(super) fn likely_epsilon(&self, saddle: Saddle) -> f64 {
        let Saddle { theta, moments } = saddle;
        (moments.mean - self.prefactor(theta, moments) / theta).max(1e-2 * moments.variance.sqrt())
    }

    /// Estimates −ln of the factor by which δ is smaller than Chernoff's bound.
    pub(super) fn prefactor(&self, theta: f64, moments: Moments) -> f64 {
        (theta * (theta + 1.0) * (2.0 * std::f64::consts::PI * moments.variance).sqrt()).ln().max(0.0)
    }
}

/// Returns the tilt whose bound is e^−`outside` at its own distance from the mean of a Gaussian; losses are resolved to
/// 1e−9 of the mean.
fn unit_tilt(outside: f64, at: Moments) -> f64 {
    let least = (1e-9 * at.mean.abs()).max(1e-100);
    (2.0 * outside).sqrt() / at.variance.sqrt().max(least)
}

/// Returns tilts around the one that is best for a Gaussian, for Chernoff's bounds.
fn tilts(unit: f64) -> impl Iterator<Item = f64> {
    (-24..=6).map(move |halves| unit * 2f64.powf(f64::from(halves) / 2.0))
}
