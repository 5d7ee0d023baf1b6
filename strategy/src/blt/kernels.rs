//! The sums of powers behind the closed forms, each with its derivative.
//!
//! Everything is written in y = 1−x for the power x: published BLTs have decays within 1e-11 of one, and sums
//! written in x lose ten digits there.

/// A number that depends on one variable, and its derivative.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Slope {
    pub value: f64,
    pub slope: f64,
}

/// Where `count`·y is below this, closed forms cancel and binomial series take their place.
const SERIES: f64 = 0.5;

/// Σ_{u<count} (1−y)^u for 0 ≤ y ≤ 1.
pub(super) fn geometric(y: f64, count: f64) -> Slope {
    if count * y < SERIES {
        return binomial(y, count, 1.0);
    }
    let log = (-y).ln_1p();
    let value = -(count * log).exp_m1() / y;
    let last = if count == 1.0 { 1.0 } else { ((count - 1.0) * log).exp() };
    Slope { value, slope: (count * last - value) / y }
}

/// Σ_{i<n} (n−i)(1−y)^i for 0 ≤ y ≤ 1.
pub(super) fn weighted_geometric(y: f64, n: f64) -> Slope {
    if n * y < SERIES {
        return binomial(y, n + 1.0, 2.0);
    }
    let inner = geometric(y, n);
    let value = (n - (1.0 - y) * inner.value) / y;
    Slope { value, slope: (inner.value - (1.0 - y) * inner.slope - value) / y }
}

/// Σ_m C(top, m + offset)·(−y)^m for offset 1 or 2: all terms of one size fall at least by half each.
fn binomial(y: f64, top: f64, offset: f64) -> Slope {
    let first = if offset == 1.0 { top } else { top * (top - 1.0) / 2.0 };
    // C(top, offset + 1), the first term of the derivative.
    let mut slope_term = -first * (top - offset) / (offset + 1.0);
    let mut value = first;
    let mut slope = 0.0;
    let mut term = first;
    let mut m = 1.0;
    while m + offset <= top {
        let ratio = (top - offset - m + 1.0) / (m + offset);
        term *= -y * ratio;
        if m > 1.0 {
            slope_term *= -y * ratio * m / (m - 1.0);
        }
        value += term;
        slope += slope_term;
        if slope_term.abs() <= 1e-18 * slope.abs() {
            break;
        }
        m += 1.0;
    }
    Slope { value, slope }
}

/// 1 − (1−a)(1−b), from a and b.
pub(super) fn joint(a: f64, b: f64) -> f64 {
    a + b - a * b
}

/// ln(1−φ)·power as a power of 1−φ, with 0⁰ = 1.
pub(super) fn decay(phi: f64, power: f64) -> f64 {
    if power == 0.0 { 1.0 } else { (power * (-phi).ln_1p()).exp() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-12 * b.abs()
    }

    #[test]
    fn sums_and_slopes_are_those_of_the_plain_sums() {
        for n in [1_u32, 2, 3, 10, 500] {
            for y in [0.0_f64, 1e-12, 1e-4, 0.00099, 0.00101, 0.05, 0.3, 0.999, 1.0] {
                let power = |i: u32| (1.0 - y).powi(i as i32);
                let rate = |i: u32| if i == 0 { 0.0 } else { -f64::from(i) * (1.0 - y).powi(i as i32 - 1) };
                let top = f64::from(n);
                let plain = geometric(y, top);
                assert!(close(plain.value, (0..n).map(power).sum()), "value {n} {y}");
                assert!(close(plain.slope, (0..n).map(rate).sum()), "slope {n} {y}");
                let weighted = weighted_geometric(y, top);
                assert!(
                    close(weighted.value, (0..n).map(|i| f64::from(n - i) * power(i)).sum()),
                    "h {n} {y}"
                );
                assert!(
                    close(weighted.slope, (0..n).map(|i| f64::from(n - i) * rate(i)).sum()),
                    "h' {n} {y}"
                );
            }
        }
        assert_eq!(geometric(0.3, 0.0).value, 0.0);
    }
}
