//! Lower bounds on δ and on power, from tests on the rounds themselves.

use accounting::normal::ln_cdf;

/// Σ w_k N(s_k, 1).
pub type Mixture = Vec<(f64, f64)>;

/// P against Q of one round, how often it is composed, and the direction of δ.
pub struct Rounds {
    pub p: Mixture,
    pub q: Mixture,
    pub count: f64,
}

fn above(x: f64) -> f64 {
    ln_cdf(-x).exp()
}

impl Rounds {
    pub fn removed(sigma: f64, q: f64, count: u64) -> Self {
        let p = vec![(1.0 - q, 0.0), (q, 1.0 / sigma)];
        Self { p, q: vec![(1.0, 0.0)], count: count as f64 }
    }

    pub fn added(sigma: f64, q: f64, count: u64) -> Self {
        let lower = vec![(1.0 - q, 0.0), (q, -1.0 / sigma)];
        Self { p: vec![(1.0, 0.0)], q: lower, count: count as f64 }
    }

    /// ln of a mixture's density over N(0, 1)'s, by what it moves.
    pub fn ln_ratio(mixture: &Mixture, x: f64) -> f64 {
        let excess: f64 = mixture.iter().map(|(w, s)| w * (s * x - 0.5 * s * s).exp_m1()).sum();
        if excess < 1e300 {
            return excess.ln_1p();
        }
        mixture.iter().map(|(w, s)| w.ln() + s * x - 0.5 * s * s).fold(f64::NEG_INFINITY, f64::max)
    }

    /// (P − Q, Q) of what is above x in one round.
    pub fn rates(&self, x: f64) -> (f64, f64) {
        let moved =
            |mixture: &Mixture| -> f64 { mixture.iter().map(|(w, s)| w * (above(x - s) - above(x))).sum() };
        (moved(&self.p) - moved(&self.q), above(x) + moved(&self.q))
    }

    pub fn reach(&self) -> f64 {
        40.0 + self.p.iter().chain(&self.q).fold(0.0, |reach: f64, (_, s)| reach.max(s.abs()))
    }

    /// δ(ε) of the test whether any round is above x.
    pub fn shown_at(&self, epsilon: f64, x: f64) -> f64 {
        let (more, q) = self.rates(x);
        if self.count == 1.0 {
            return more - epsilon.exp_m1() * q;
        }
        let any = |rate: f64| -(self.count * (-rate.min(1.0)).ln_1p()).exp_m1();
        any(q + more) - epsilon.exp() * any(q) - 1e-14 * any(q + more)
    }

    /// The largest δ(ε) that such a test shows: of one round the exact one.
    pub fn shown(&self, epsilon: f64) -> f64 {
        if self.count > 1.0 {
            let most = (self.reach() / 0.02) as i32;
            return (-200..most).map(|i| self.shown_at(epsilon, 0.02 * f64::from(i))).fold(0.0, f64::max);
        }
        let mut low = -self.reach();
        let mut high = self.reach();
        for _ in 0..200 {
            let x = f64::midpoint(low, high);
            let loss = Self::ln_ratio(&self.p, x) - Self::ln_ratio(&self.q, x);
            if loss > epsilon { high = x } else { low = x }
        }
        self.shown_at(epsilon, high).max(0.0)
    }

    /// The best power that one round above x shows at a false positive rate.
    pub fn power(&self, rate: f64) -> f64 {
        let mut low = -self.reach();
        let mut high = self.reach();
        for _ in 0..200 {
            let x = f64::midpoint(low, high);
            if self.rates(x).1 > rate { low = x } else { high = x }
        }
        let (more, q) = self.rates(high);
        q + more
    }
}
