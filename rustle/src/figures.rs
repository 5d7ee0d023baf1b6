//! Figures in tables: six significant digits. JSON has all of them.

/// Names of figures that are rounded up in a table, so that none looks smaller than it is.
const OF_PRIVACY: [&str; 4] = ["epsilon", "delta", "rho", "sensitivity"];

/// The name of a figure that a table has in full: any rounding of it is another guarantee.
const IN_FULL: &str = "noise_multiplier";

/// The end of the name of a figure of privacy that is rounded down, so that no lower bound looks higher than it is.
const FROM_BELOW: &str = "_lower";

/// Returns how a number of the name is written in a table.
pub fn shown(name: &str) -> fn(f64) -> String {
    if name.contains(IN_FULL) {
        return |value: f64| value.to_string();
    }
    if !OF_PRIVACY.iter().any(|word| name.contains(word)) {
        return nearest;
    }
    if name.ends_with(FROM_BELOW) { rounded_down } else { rounded_up }
}

/// Returns six significant digits, rounded to the nearest, without zeros at the end. Whole numbers beyond them are whole.
pub fn nearest(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    if (1e6..1e15).contains(&value.abs()) {
        return format!("{value:.0}");
    }
    // Exactly rounded, as d.ddddde±x.
    let text = format!("{value:.5e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    match exponent.parse::<i32>() {
        Ok(exponent @ -5..=5) => without_zeros(&format!("{value:.*}", (5 - exponent) as usize)),
        _ => format!("{}e{exponent}", without_zeros(mantissa)),
    }
}

/// Returns six significant digits, rounded up: a privacy figure must not look smaller than it is.
pub fn rounded_up(value: f64) -> String {
    let shown = nearest(value);
    let is_below = |text: &str| text.parse::<f64>().is_ok_and(|shown| shown < value);
    if !is_below(&shown) {
        return shown;
    }
    // One more in the last of the digits.
    let is_whole = (1e6..1e15).contains(&value.abs());
    let unit = if is_whole { 1.0 } else { 10f64.powi(value.abs().log10().floor() as i32 - 5) };
    let more = nearest(value + unit / 2.0);
    if is_below(&more) { nearest(value + unit) } else { more }
}

/// Returns six significant digits, rounded down: what is left of a budget must not look larger than it is.
pub fn rounded_down(value: f64) -> String {
    let negated = rounded_up(-value);
    negated.strip_prefix('-').map_or_else(|| format!("-{negated}"), str::to_owned)
}

fn without_zeros(text: &str) -> String {
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_digits_are_shown_and_privacy_is_rounded_up() {
        for (value, near, up) in [
            (3.999999999999999, "4", "4"),
            (8254.021692044129, "8254.02", "8254.03"),
            (1.0000001, "1", "1.00001"),
            (0.000012345678, "0.0000123457", "0.0000123457"),
            (1e-8, "1e-8", "1e-8"),
            (1.23456789e-8, "1.23457e-8", "1.23457e-8"),
            (22009879.2, "22009879", "22009880"),
            (0.5, "0.5", "0.5"),
            (0.0, "0", "0"),
            (-2.5, "-2.5", "-2.5"),
            (1e300, "1e300", "1e300"),
        ] {
            assert_eq!((nearest(value), rounded_up(value)), (near.to_owned(), up.to_owned()), "{value}");
        }
        assert_eq!(nearest(f64::INFINITY), "inf");
    }

    #[test]
    fn rounded_up_is_never_below() {
        let mut value = 1.000_000_3e-7_f64;
        while value < 1e12 {
            let shown: f64 = rounded_up(value).parse().unwrap();
            assert!(shown >= value && shown <= value * 1.00002, "{value} is shown as {shown}");
            value *= 1.37;
        }
    }

    #[test]
    fn rounded_down_is_never_above() {
        for (value, down) in [
            (0.0, "0"),
            (0.5, "0.5"),
            (1.9999999, "1.99999"),
            (0.99999996, "0.999999"),
            (8254.026, "8254.02"),
            (999_999.7, "999999"),
            (22009879.9, "22009879"),
            (-2.5, "-2.5"),
        ] {
            assert_eq!(rounded_down(value), down, "{value}");
        }
        let mut value = 1.000_000_3e-7_f64;
        while value < 1e12 {
            let shown: f64 = rounded_down(value).parse().unwrap();
            assert!(shown <= value && shown >= value * 0.99998, "{value} is shown as {shown}");
            value *= 1.37;
        }
    }
}
