//! From values to places on the paper, and which values are named along an axis.

use crate::Scale;

/// A stretch of values laid over a stretch of the paper.
pub struct Ruler {
    scale: Scale,
    /// In units of the scale: values, or their decimal logarithms.
    from: f64,
    to: f64,
    /// Where `from` and `to` lie, in pixels; y grows downwards, so a vertical ruler runs backwards.
    start: f64,
    end: f64,
}

impl Ruler {
    /// Covers all `values`, which are finite and, on a logarithmic scale, above 0; at least one.
    pub fn new(scale: Scale, values: impl Iterator<Item = f64>, start: f64, end: f64) -> Self {
        let units = values.map(|value| unit(scale, value));
        let (from, to) = units
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), unit| (low.min(unit), high.max(unit)));
        let room = match to - from {
            // One value alone stands in the middle.
            0.0 if scale == Scale::Log => 0.3,
            0.0 => from.abs().max(1.0) / 2.0,
            width => width / 25.0,
        };
        // Linear axes of values above 0 start at 0: a length is read against it.
        let from = if scale == Scale::Linear && from >= 0.0 { 0.0 } else { from - room };
        Self { scale, from, to: to + room, start, end }
    }

    pub fn place(&self, value: f64) -> f64 {
        let share = (unit(self.scale, value) - self.from) / (self.to - self.from);
        self.start + share * (self.end - self.start)
    }

    /// Where bars stand.
    pub fn floor(&self) -> f64 {
        match self.scale {
            Scale::Linear => self.place(0.0f64.max(self.from)),
            Scale::Log => self.start,
        }
    }

    /// Round values within the ruler, lowest first.
    pub fn ticks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Linear => self.linear_ticks(),
            Scale::Log => self.log_ticks(),
        }
    }

    fn linear_ticks(&self) -> Vec<f64> {
        let rough = (self.to - self.from) / 6.0;
        let decade = 10f64.powf(rough.log10().floor());
        let round = [1.0, 2.0, 5.0, 10.0].into_iter().find(|round| round * decade >= rough);
        let step = round.unwrap_or(10.0) * decade;
        let first = (self.from / step).ceil() as i64;
        let last = (self.to / step).floor() as i64;
        (first..=last).map(|tick| tick as f64 * step).collect()
    }

    fn log_ticks(&self) -> Vec<f64> {
        let decades = self.from.floor() as i32..=self.to.ceil() as i32;
        let width = self.to - self.from;
        // Few decades leave room for names in between; many leave none even for each decade.
        let within: &[f64] = if width < 2.5 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let every = (width / 10.0).ceil() as i32;
        decades
            .filter(|decade| decade % every == 0)
            .flat_map(|decade| within.iter().map(move |round| round * 10f64.powi(decade)))
            .filter(|&value| (self.from..=self.to).contains(&value.log10()))
            .collect()
    }
}

fn unit(scale: Scale, value: f64) -> f64 {
    match scale {
        Scale::Linear => value,
        Scale::Log => value.log10(),
    }
}

/// A value in few letters: 20, 0.05, 1.5k, 100M, 3e-7.
pub fn short(value: f64) -> String {
    let size = value.abs();
    let (divided, suffix) = match size {
        _ if size >= 1e15 || (size < 1e-4 && size > 0.0) => return format!("{value:e}"),
        _ if size >= 1e12 => (value / 1e12, "T"),
        _ if size >= 1e9 => (value / 1e9, "G"),
        _ if size >= 1e6 => (value / 1e6, "M"),
        _ if size >= 1e3 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    // Steps are computed, so a tick may be a rounding error away from the value it stands for.
    let text = format!("{divided:.6}");
    format!("{}{suffix}", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_lie_where_the_scale_puts_them() {
        let ruler = Ruler::new(Scale::Linear, [0.0, 25.0].into_iter(), 0.0, 26.0);
        assert!((ruler.place(10.0) - 10.0).abs() < 1e-9);
        let ruler = Ruler::new(Scale::Log, [1.0, 100.0].into_iter(), 300.0, 0.0);
        assert!((ruler.place(10.0) - 150.0).abs() < 1e-9, "the middle decade lies in the middle");
        assert!(ruler.place(100.0) < ruler.place(10.0), "a backwards ruler runs backwards");
    }

    #[test]
    fn ticks_are_round_and_within() {
        let ticks = |scale, values: [f64; 2]| Ruler::new(scale, values.into_iter(), 0.0, 1.0).ticks();
        assert_eq!(ticks(Scale::Linear, [0.0, 95.0]), [0.0, 20.0, 40.0, 60.0, 80.0]);
        assert_eq!(ticks(Scale::Log, [1e4, 1e8]), [1e4, 1e5, 1e6, 1e7, 1e8]);
        assert_eq!(ticks(Scale::Log, [3.0, 30.0]), [5.0, 10.0, 20.0]);
        assert!(ticks(Scale::Log, [1e-100, 1e100]).len() <= 12);
        assert_eq!(ticks(Scale::Linear, [-1.0, 1.0]), [-1.0, -0.5, 0.0, 0.5, 1.0]);
    }

    #[test]
    fn a_single_value_has_an_axis_too() {
        for scale in [Scale::Linear, Scale::Log] {
            let ruler = Ruler::new(scale, std::iter::once(5.0), 0.0, 1.0);
            assert!((0.0..=1.0).contains(&ruler.place(5.0)) && !ruler.ticks().is_empty(), "{scale:?}");
        }
    }

    #[test]
    fn numbers_are_short() {
        let shown: Vec<_> = [0.0, 0.05, 20.0, 1.5e3, 1e8, 3e-7, -2e9].into_iter().map(short).collect();
        assert_eq!(shown, ["0", "0.05", "20", "1.5k", "100M", "3e-7", "-2G"]);
        assert_eq!(short(0.1 + 0.2), "0.3");
    }
}
