//! How figures are compared and written: never to the advantage of a request.

/// The part of ε by which a composition may come out lower when its parts are in another order, or read again from JSON.
pub const ROUNDING: f64 = 1e-12;

/// Writes a number with five significant digits, rounded up.
pub fn rounded_up(number: f64) -> String {
    let decimals = (4 - number.log10().floor() as i32).max(0);
    let scale = 10_f64.powi(decimals);
    format!("{:.*}", decimals as usize, (number * scale).ceil() / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_up() {
        for (number, text) in
            [(5.12341, "5.1235"), (5.0, "5.0000"), (0.012_345_61, "0.012346"), (123_456.1, "123457")]
        {
            assert_eq!(rounded_up(number), text);
        }
    }
}
