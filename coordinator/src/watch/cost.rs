//! What the rows released so far cost in privacy.

use accounting::Report;
use plan::Plan;
use proto::{Result, ServiceError};

/// Figures are worked out at this many points of a run, and rounded up to the next.
const POINTS: u64 = 100;

/// Of a run that stops after some row, under zeroing out all participations of one user.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    pub rho: f64,
    pub epsilon: f64,
    /// False where both are upper bounds.
    pub exact: bool,
}

/// Says what rows of one plan cost.
#[derive(Debug)]
pub struct Meter {
    plan: Plan,
    delta: f64,
    pub planned: Cost,
}

impl Meter {
    /// `None` where the plan has no noise: there is no guarantee to state. Long plans take seconds.
    pub fn new(plan_toml: &str, delta: f64) -> Result<Option<Self>> {
        let plan = Plan::from_toml_str(plan_toml).map_err(ServiceError::internal)?;
        if plan.noise_multiplier() == 0.0 {
            return Ok(None);
        }
        let planned = cost(&plan, plan.iterations(), delta)?;
        Ok(Some(Self { plan, delta, planned }))
    }

    /// Of rows 0..`rows`: C is lower triangular, so they are a mechanism by themselves, whose matrix is C's leading
    /// block. Where that can't be worked out within memory, the whole plan's figure stands for it. Long plans take
    /// seconds.
    pub fn after(&self, rows: u64) -> Cost {
        if rows == 0 {
            return Cost { exact: true, ..Cost::default() };
        }
        match cost(&self.plan, rows, self.delta) {
            Ok(cost) if cost.rho <= self.planned.rho => cost,
            _ => Cost { exact: rows == self.plan.iterations() && self.planned.exact, ..self.planned },
        }
    }

    /// The point that stands for a job that goes on with `next_row`: never before it.
    pub fn point(&self, next_row: u64) -> u64 {
        let iterations = self.plan.iterations();
        next_row.next_multiple_of(iterations.div_ceil(POINTS)).min(iterations)
    }
}

fn cost(plan: &Plan, rows: u64, delta: f64) -> Result<Cost> {
    let sensitivity = plan.accounted_sensitivity_of(0..rows).map_err(ServiceError::internal)?;
    let report =
        Report::at_delta(sensitivity, plan.noise_multiplier(), delta).map_err(ServiceError::internal)?;
    Ok(Cost { rho: report.rho, epsilon: report.epsilon, exact: report.exact })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meter(noise_multiplier: f64) -> Option<Meter> {
        let text = format!(
            "format = 1\nstream_version = {}\niterations = 1000\nnoise_multiplier = {noise_multiplier:?}\n\
             clip_norm = 1.0\n[participation]\nmin_sep = 100\nmax_participations = 4\n\
             [mechanism]\nname = \"identity\"\n",
            plan::STREAM_VERSION
        );
        Meter::new(&text, 1e-6).unwrap()
    }

    /// Without correlation k participations cost k/(2σ²): so many as fit in the rows released.
    #[test]
    fn each_participation_is_paid_when_its_rows_are() {
        let meter = meter(2.0).unwrap();
        for (rows, participations) in [(0, 0.0), (1, 1.0), (100, 1.0), (101, 2.0), (250, 3.0), (1000, 4.0)] {
            let rho = meter.after(rows).rho;
            assert!((rho - participations / 8.0).abs() < 1e-12, "{rows} rows: {rho}");
        }
        assert_eq!(meter.after(1000), meter.planned);
        assert!(meter.planned.exact && meter.planned.epsilon > 0.0);
    }

    #[test]
    fn points_are_never_before_the_row() {
        let meter = meter(1.0).unwrap();
        for (next_row, point) in
            [(0, 0), (1, 10), (10, 10), (11, 20), (999, 1000), (1000, 1000), (5000, 1000)]
        {
            assert_eq!(meter.point(next_row), point);
        }
    }

    #[test]
    fn without_noise_nothing_is_stated() {
        assert!(meter(0.0).is_none());
    }
}
