//! The checks of a plan that may be run.

use accounting::Report;
use plan::Plan;
use report::event::bands;

use super::{Finding, Severity};
use crate::figures;
use crate::output::bad_use;

/// ε above which a guarantee says little.
const LARGE_EPSILON: f64 = 10.0;
/// Clip norms beyond which a unit was likely mistaken.
const USUAL_CLIP_NORMS: std::ops::RangeInclusive<f64> = 1e-4..=1e4;
const FEW_ROUNDS_OF_CHACHA: u32 = 12;

/// Refuses a δ that is no probability below one.
pub fn check_delta(delta: f64) -> anyhow::Result<()> {
    if delta > 0.0 && delta < 1.0 {
        return Ok(());
    }
    Err(bad_use(format!("--delta is {delta}; allowed: above 0 and below 1")))
}

/// Returns all findings on a plan, ε at `delta`.
pub fn findings(plan: &Plan, delta: f64, records: Option<u64>) -> Vec<Finding> {
    let mut found = Vec::new();
    found.extend(privacy(plan, delta));
    found.extend(records.and_then(|records| large_delta(delta, records)));
    found.extend(arithmetic(plan));
    found.extend(summing_error(plan));
    found.extend(participations(plan));
    found.extend(near_rounds(plan));
    found.extend(wide_bands(plan));
    found.extend(clip_norm(plan));
    found.extend(cipher(plan));
    found.extend(layout(plan));
    found
}

fn privacy(plan: &Plan, delta: f64) -> Vec<Finding> {
    let noise = plan.accounted_noise_multiplier();
    if noise == 0.0 {
        let next_step = "a noise multiplier above 0: rustle calibrate finds one for your ε and δ";
        return vec![Finding::new(
            Severity::Error,
            "no_noise",
            "noise_multiplier is 0: there is no privacy",
            next_step,
        )];
    }
    let report = plan
        .accounted_sensitivity()
        .map_err(anyhow::Error::from)
        .and_then(|sensitivity| Ok(Report::of_run(sensitivity, noise, plan.failure_probability(), delta)?));
    let report = match report {
        Ok(report) => report,
        Err(error) => {
            let what = format!("no ε can be stated at δ = {delta:e}: {error}");
            return vec![Finding::new(Severity::Error, "no_epsilon", what, "another δ, or another plan")];
        }
    };
    let mut found = Vec::new();
    if report.epsilon > LARGE_EPSILON {
        let epsilon = figures::rounded_up(report.epsilon);
        let what = format!("ε is {epsilon} at δ = {delta:e} for batches in any order, which promises little");
        let next_step = "more noise, fewer participations, or batches drawn at random: rustle report --sampling states what they save";
        found.push(Finding::new(Severity::Warning, "large_epsilon", what, next_step));
    }
    if !report.exact {
        let what = "the sensitivity is an upper bound, and so is ε: more noise than needed";
        let next_step = "nothing, or a C without negative entries or with at most min_sep bands, whose sensitivity is exact";
        found.push(Finding::new(Severity::Note, "sensitivity_bound", what, next_step));
    }
    found
}

fn large_delta(delta: f64, records: u64) -> Option<Finding> {
    let share = delta * records as f64;
    let severity = match share {
        share if share >= 1.0 => Severity::Error,
        share if share > 0.1 => Severity::Warning,
        _ => return None,
    };
    let what = format!(
        "δ = {delta:e} with {records} records: a mechanism that publishes {} of them at random keeps it",
        figures::rounded_up(share)
    );
    let next_step = format!("a δ of {:e} or less", 0.1 / records as f64);
    Some(Finding::new(severity, "large_delta", what, next_step))
}

fn arithmetic(plan: &Plan) -> Option<Finding> {
    if plan.on_grid().is_some() {
        return None;
    }
    let what = "rows are floating-point numbers: the account is that of real ones, and does not hold against precision attacks";
    let next_step = "know it (docs/grid.md); without --float, rustle plan from, optimize and suggest make plans whose bits keep the account";
    Some(Finding::new(Severity::Warning, "float_arithmetic", what, next_step))
}

fn summing_error(plan: &Plan) -> Option<Finding> {
    let tolerance = plan.on_grid()?.grid().summing_error;
    if tolerance != 0.0 {
        return None;
    }
    let what =
        "grid.summing_error is 0: the account trusts that clipping and summing add nothing to any norm";
    let next_step = "the tolerance of your clipping and sums, or exact ones (docs/grid.md)";
    Some(Finding::new(Severity::Warning, "summing_error", what, next_step))
}

/// Compares the participations that the plan counts with those that its rounds have room for.
fn participations(plan: &Plan) -> Option<Finding> {
    let rule = plan.participation();
    let rounds = plan.iterations();
    let fit = (rounds - 1) / rule.min_sep + 1;
    let most = rule.max_participations;
    let of = format!("{rounds} rounds at least {} apart have room for {fit}", rule.min_sep);
    if most > fit {
        let what = format!("max_participations is {most}, and {of}: the account counts {fit}");
        let next_step = format!("max_participations = {fit}, or the min_sep that was meant");
        return Some(Finding::new(Severity::Warning, "participations_beyond_rounds", what, next_step));
    }
    if most < fit {
        let what = format!("max_participations is {most}, and {of}: nothing but your batches keeps to it");
        let next_step =
            "batches that stop at it (rustle batches, docs/loaders.md), or a larger max_participations";
        return Some(Finding::new(Severity::Warning, "participations_below_rounds", what, next_step));
    }
    None
}

fn near_rounds(plan: &Plan) -> Option<Finding> {
    let rule = plan.participation();
    let is_near = rule.min_sep == 1 && rule.max_participations > 1 && plan.iterations() > 1;
    is_near.then(|| {
        let what = "min_sep is 1: one user may take part in neighbouring rounds, for which correlated noise gains least";
        Finding::new(Severity::Note, "neighbouring_rounds", what, "a larger min_sep, if your batches keep users apart")
    })
}

fn wide_bands(plan: &Plan) -> Option<Finding> {
    let bands = bands(plan)?;
    let rule = plan.participation();
    if bands <= rule.min_sep || rule.max_participations == 1 {
        return None;
    }
    let what = format!(
        "C has {bands} bands, and min_sep is {}: rounds of one user meet in C, which raises the sensitivity",
        rule.min_sep
    );
    let next_step =
        format!("at most {} bands, or batches that keep users {bands} rounds apart", rule.min_sep);
    Some(Finding::new(Severity::Warning, "bands_beyond_min_sep", what, next_step))
}

fn clip_norm(plan: &Plan) -> Option<Finding> {
    let norm = plan.clip_norm();
    if !USUAL_CLIP_NORMS.contains(&norm) {
        let what = format!("clip_norm is {norm:e}: noise is that times {}", plan.noise_multiplier());
        let next_step = "see that it is in the gradient's own units, of a sum and not of a mean";
        return Some(Finding::new(Severity::Warning, "unusual_clip_norm", what, next_step));
    }
    (norm == 1.0).then(|| {
        let what = "clip_norm is 1, which is what commands write where none is given";
        let next_step = "see that your training clips every contribution to norm 1, or set --clip-norm";
        Finding::new(Severity::Note, "default_clip_norm", what, next_step)
    })
}

fn cipher(plan: &Plan) -> Option<Finding> {
    (plan.chacha_rounds() == FEW_ROUNDS_OF_CHACHA).then(|| {
        let what = "chacha_rounds is 12: faster, with a smaller margin than 20";
        Finding::new(
            Severity::Note,
            "fewer_cipher_rounds",
            what,
            "20 where the noise must stay secret for decades",
        )
    })
}

fn layout(plan: &Plan) -> Option<Finding> {
    plan.layout().is_none().then(|| {
        let what = "no [layout]: the plan fixes neither the dimension nor the order of the parameters";
        let next_step = "nothing: each command takes --dimension; a plan saved by an adapter has a layout";
        Finding::new(Severity::Note, "no_layout", what, next_step)
    })
}
