//! The part of an axis that a chart shows, the values marked along it, and their short form.

use std::ops::Range;

use plotters::coord::combinators::{LogCoord, WithKeyPoints};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use crate::{Scale, Value};

/// Returns the numbers of a value that its axis has to show: the middle and the ends of the spread.
pub fn ends(value: &Value) -> [f64; 3] {
    let (low, high) = value.spread.unwrap_or((value.middle, value.middle));
    [value.middle, low, high]
}

/// Returns the part of an axis that shows all of `values`, with some room around them.
pub fn extent(scale: Scale, values: impl Iterator<Item = f64>) -> Range<f64> {
    let unit = |value: f64| if scale == Scale::Log { value.log10() } else { value };
    let (low, high) = values
        .map(unit)
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), unit| (low.min(unit), high.max(unit)));
    let room = match (high - low, scale) {
        // One value alone stands in the middle.
        (0.0, Scale::Log) => 0.3,
        (0.0, Scale::Linear) => low.abs().max(1.0) / 2.0,
        (width, _) => width / 25.0,
    };
    match scale {
        Scale::Log => 10f64.powf(low - room)..10f64.powf(high + room),
        // Linear axes of values above 0 start at 0: a length is read against it.
        Scale::Linear => (if low >= 0.0 { 0.0 } else { low - room })..high + room,
    }
}

/// Returns a logarithmic axis with round values along it: decades, 1, 2 and 5 of each where there are few, and evenly spaced
/// values where there is less than one.
pub fn log(axis: Range<f64>) -> WithKeyPoints<LogCoord<f64>> {
    let decades = (axis.end / axis.start).log10();
    let within: &[f64] = if decades < 2.5 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let every = (decades / 10.0).ceil() as i32;
    let mut ticks: Vec<f64> = (axis.start.log10().floor() as i32..=axis.end.log10().ceil() as i32)
        .filter(|decade| decade % every == 0)
        .flat_map(|decade| within.iter().map(move |round| round * 10f64.powi(decade)))
        .filter(|tick| axis.contains(tick))
        .collect();
    if ticks.len() < 3 {
        ticks = RangedCoordf64::from(axis.clone()).key_points(6);
    }
    axis.log_scale().with_key_points(ticks)
}

/// Writes a value in few letters: 20, 0.05, 1.5k, 100M, 3e-7.
pub fn short(value: f64) -> String {
    let size = value.abs();
    let (divided, suffix) = match size {
        _ if size >= 1e15 || (size < 1e-4 && size > 0.0) => {
            // Three digits that count: a tick may be a rounding error away from the value it stands for.
            let rounded: f64 = format!("{value:.2e}").parse().unwrap_or(value);
            return format!("{rounded:e}");
        }
        _ if size >= 1e12 => (value / 1e12, "T"),
        _ if size >= 1e9 => (value / 1e9, "G"),
        _ if size >= 1e6 => (value / 1e6, "M"),
        _ if size >= 1e3 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = format!("{divided:.6}");
    format!("{}{suffix}", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_show_all_values_and_begin_at_zero_where_they_can() {
        assert_eq!(extent(Scale::Linear, [0.0, 25.0].into_iter()), 0.0..26.0);
        assert_eq!(extent(Scale::Linear, [-25.0, 0.0].into_iter()), -26.0..1.0);
        let decades = extent(Scale::Log, [1.0, 1e25].into_iter());
        assert!((decades.start - 0.1).abs() < 1e-9 && (decades.end / 1e26 - 1.0).abs() < 1e-9, "{decades:?}");
    }

    #[test]
    fn a_single_value_has_an_axis_too() {
        for scale in [Scale::Linear, Scale::Log] {
            let axis = extent(scale, std::iter::once(5.0));
            assert!(axis.contains(&5.0) && axis.start < axis.end, "{scale:?}: {axis:?}");
        }
    }

    #[test]
    fn ticks_of_logarithmic_axes_are_round_and_within() {
        let ticks = |axis: Range<f64>| log(axis).bold_points().to_vec();
        assert_eq!(ticks(2e4..2e8), [1e5, 1e6, 1e7, 1e8]);
        assert_eq!(ticks(3.0..30.0), [5.0, 10.0, 20.0]);
        assert!(ticks(1e-100..1e100).len() <= 12);
        let narrow = ticks(1.2..1.9);
        assert!(narrow.len() > 3 && narrow.iter().all(|tick| (1.2..1.9).contains(tick)), "{narrow:?}");
    }

    #[test]
    fn numbers_are_short() {
        let shown: Vec<_> = [0.0, 0.05, 20.0, 1.5e3, 1e8, 3e-7, -2e9].into_iter().map(short).collect();
        assert_eq!(shown, ["0", "0.05", "20", "1.5k", "100M", "3e-7", "-2G"]);
        assert_eq!(short(0.1 + 0.2), "0.3");
    }
}
