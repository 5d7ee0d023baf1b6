//! The σ that accounts count with is never above the one that runs.

use proptest::prelude::*;

use super::spec;
use crate::{Mechanism, Plan, noise_multiplier_to_run};

fn plan(noise_multiplier: f64, clip_norm: f64) -> Plan {
    Plan::new(crate::PlanSpec { noise_multiplier, clip_norm, ..spec(5, Mechanism::Identity) }).unwrap()
}

/// The sign of x·y − z, exactly.
fn above(x: f64, y: f64, z: f32) -> bool {
    x.mul_add(y, -f64::from(z)) > 0.0
}

#[test]
fn what_f32_rounds_down_is_not_counted_on() {
    let lost = plan(1.000_000_05, 1.0);
    assert_eq!((lost.scale(), lost.accounted_noise_multiplier()), (1.0, 1.0));
    // Rounded up: noise beyond σ promises nothing.
    let gained = plan(1.000_000_07, 1.0);
    assert!(f64::from(gained.scale()) > 1.000_000_07);
    assert_eq!(gained.accounted_noise_multiplier(), 1.000_000_07);
    assert_eq!(plan(1.5, 2.0).accounted_noise_multiplier(), 1.5);
    assert_eq!(plan(0.0, 2.0).accounted_noise_multiplier(), 0.0);
}

#[test]
fn a_calibrated_sigma_runs_as_it_is_written() {
    assert_eq!(noise_multiplier_to_run(1.5, 2.0), 1.5);
    let raised = noise_multiplier_to_run(1.000_000_05, 1.0);
    assert_eq!(raised, f64::from(1_f32.next_up()));
    // Values that a plan refuses stay as they are.
    for refused in [0.0, -1.0, f64::INFINITY, f64::from(f32::MAX)] {
        assert_eq!(noise_multiplier_to_run(refused, 1.0), refused);
    }
    assert!(noise_multiplier_to_run(f64::NAN, 1.0).is_nan());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn no_more_is_counted_on_than_runs(log_scale in -80.0..80.0_f64, log_clip in -600.0..600.0_f64) {
        let clip = log_clip.exp();
        let sigma = log_scale.exp() / clip;
        let plan = plan(sigma, clip);
        let accounted = plan.accounted_noise_multiplier();
        prop_assert!(accounted <= sigma && accounted >= sigma * (1.0 - 6.1e-8), "{accounted:e} {sigma:e}");
        prop_assert!(!above(accounted, clip, plan.scale()), "{accounted:e} {clip:e}");
    }

    #[test]
    fn what_is_found_is_what_runs(log_sigma in -40.0..40.0_f64, log_clip in -40.0..40.0_f64) {
        let found = log_sigma.exp();
        let clip = log_clip.exp();
        let sigma = noise_multiplier_to_run(found, clip);
        prop_assert!(sigma >= found && sigma <= found * (1.0 + 1.2e-7), "{sigma:e} {found:e}");
        prop_assert_eq!(plan(sigma, clip).accounted_noise_multiplier(), sigma);
    }
}
