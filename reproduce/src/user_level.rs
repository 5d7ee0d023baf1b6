//! Users of many records: Charles et al. (2024), Figures 1 and 2.

use accounting::calibration::{self, Target};
use accounting::{Account, AccountingError, Neighbouring, amplification, summary};
use plot::{Axis, Series};
use rayon::prelude::*;

use crate::curves::{Curves, chart};
use crate::item::{Cell, Claim, Findings, Table, claims};
use crate::work::Work;

const ROUNDS: u64 = 2000;
const Q: f64 = 0.01;
const DELTA: f64 = 1e-6;
const SIGMAS: [f64; 4] = [0.5, 1.0, 2.0, 4.0];
const GROUPS: [u64; 7] = [1, 2, 4, 8, 16, 32, 64];
/// ε by dp-accounting 0.6.0 (grid 1e-4) at σ = 1.
const PEER: [(u64, f64); 3] = [(1, 2.955257998), (4, 14.53498083), (16, 90.90120793)];

fn sigma_name(sigma: f64) -> String {
    format!("σ = {sigma}")
}

/// Figure 1: ε by mixtures, and by what one record's ε implies for groups.
pub fn mixtures(work: &Work) -> anyhow::Result<Findings> {
    let lines: anyhow::Result<Vec<_>> = SIGMAS.par_iter().map(|sigma| line(work, *sigma)).collect();
    let mut mixture = Curves::of_whole(&GROUPS);
    let mut black_box = Curves::of_whole(&GROUPS);
    let mut series = Vec::new();
    for (sigma, (by_mixture, by_black_box)) in SIGMAS.iter().zip(lines?) {
        mixture.add(sigma_name(*sigma), by_mixture);
        black_box.add(sigma_name(*sigma), by_black_box);
    }
    for (one, other) in mixture.series().into_iter().zip(black_box.series()) {
        series.push(Series { name: format!("mixture, {}", one.name), ..one });
        series.push(Series { name: format!("black box, {}", other.name), dashed: true, ..other });
    }
    let title = format!("ε of {ROUNDS} rounds of ELS, p = {Q}, δ = {DELTA:e}");
    let peer = |(group, peer): (u64, f64)| {
        vec![group.into(), Cell::number(peer, 6), Cell::number(mixture.at("σ = 1", group), 6)]
    };
    Ok(Findings {
        claims: claims_on_mixtures(&mixture, &black_box),
        tables: vec![
            mixture.table("ε by mixtures", "G", Cell::whole, 3),
            black_box.table("ε by the black box", "G", Cell::whole, 3),
            Table::new(
                "Beside dp-accounting 0.6.0, σ = 1, grid 1e-4",
                ["G", "ε, peer's", "ε, ours"],
                PEER.map(peer),
            ),
        ],
        charts: vec![chart(title, Axis::log("G, most records of one user"), Axis::log("ε"), series)],
        ..Findings::default()
    })
}

/// ε by group: by the mixture, and by the black box where some ε up to 10⁴ for one record will do.
fn line(work: &Work, sigma: f64) -> anyhow::Result<(Vec<f64>, Vec<Option<f64>>)> {
    work.report(&sigma_name(sigma));
    let one = amplification::profile(sigma, Q, ROUNDS, Neighbouring::ZeroOut)?;
    let mixture = GROUPS.iter().map(|group| {
        let event = accounting::user_level::round(sigma, Q, *group)?.times(ROUNDS);
        Account::new(&event, Neighbouring::ZeroOut)?.epsilon(DELTA)
    });
    let black_box = GROUPS.iter().map(|group| match summary::group_epsilon(&one, *group, DELTA) {
        Ok(epsilon) => Ok(Some(epsilon)),
        Err(AccountingError::OutOfReach { .. }) => Ok(None),
        Err(other) => Err(other),
    });
    Ok((mixture.collect::<Result<_, _>>()?, black_box.collect::<Result<_, _>>()?))
}

fn claims_on_mixtures(mixture: &Curves, black_box: &Curves) -> Vec<Claim> {
    // ln ε over ln G, from one record to `group`.
    let growth = |sigma: f64, group: u64| {
        let name = sigma_name(sigma);
        (mixture.at(&name, group) / mixture.at(&name, 1)).ln() / (group as f64).ln()
    };
    let growths =
        |group: u64| SIGMAS.map(|sigma| format!("{:.2} at σ = {sigma}", growth(sigma, group))).join(", ");
    // NaN, where the black box has no answer, is above everything.
    let below = |sigma: &f64| {
        let name = sigma_name(*sigma);
        let is_above = |g: &u64| mixture.at(&name, *g) > black_box.at(&name, *g) * (1.0 + 2e-3);
        !GROUPS.iter().any(is_above)
    };
    let near = SIGMAS.iter().all(|sigma| growth(*sigma, 8) < 1.25);
    let worst = mixture.at("σ = 2", 64);
    let worst_black_box = Some(black_box.at("σ = 2", 64)).filter(|epsilon| !epsilon.is_nan());
    let instead = worst_black_box.map_or("no answer".into(), |epsilon| format!("{epsilon:.0}"));
    let far = SIGMAS.iter().all(below) && worst_black_box.is_none_or(|epsilon| epsilon > 3.0 * worst);
    let agrees =
        PEER.iter().all(|(group, peer)| (-1e-5..5e-5).contains(&(mixture.at("σ = 1", *group) / peer - 1.0)));
    claims![
        near => "up to G = 8 as G to the power {}; up to 64 {}", growths(8), growths(64);
        far => "σ = 2, G = 64: {instead} instead of {worst:.1}";
        agrees => "within 5e-5 of ours, and not above it by more than 1e-5";
    ]
}

const USERS: f64 = 1024.0;
const RECORDS: u64 = 32;
const VARIANCE_ROUNDS: u64 = 1000;
/// The largest norm of one record's gradient.
const NORM: f64 = 10.0;
const EPSILONS: [f64; 4] = [1.0, 4.0, 16.0, 64.0];
const BUDGET: f64 = 64.0;
const VARIANCE_GROUPS: [u64; 6] = [1, 2, 4, 8, 16, 32];
const COHORT: f64 = 16.0;
const BUDGETS: [u64; 6] = [16, 32, 64, 128, 256, 512];

/// σ of ELS with groups of G, at B records a round.
fn els_noise(epsilon: f64, group: u64, budget: f64) -> accounting::Result<f64> {
    let p = budget / (group as f64 * USERS);
    calibration::noise_multiplier(Target::from((epsilon, DELTA)), |sigma| {
        Ok(accounting::user_level::round(sigma, p, group)?.times(VARIANCE_ROUNDS))
    })
}

fn els_variance(epsilon: f64, group: u64, budget: f64) -> accounting::Result<f64> {
    Ok((els_noise(epsilon, group, budget)? * NORM / budget).powi(2))
}

fn uls_noise(epsilon: f64) -> accounting::Result<f64> {
    // Users are to ULS what records are to ELS with groups of one.
    els_noise(epsilon, 1, COHORT)
}

const ELS: &str = "ELS, G = 32";
const ALIKE: &str = "ULS, L_ULS = L_ELS";
const DIVERSE: &str = "ULS, L_ULS = L_ELS/√G";

/// Variances at one ε.
struct Variances {
    epsilon: f64,
    /// ELS over [`VARIANCE_GROUPS`] at [`BUDGET`].
    by_group: Vec<f64>,
    /// ELS and ULS over [`BUDGETS`].
    by_budget: Curves,
    /// σ_ELS / (K·σ_ULS) at the largest budget, where both sample as often.
    conjectured: f64,
}

impl Variances {
    fn new(work: &Work, epsilon: f64) -> anyhow::Result<Self> {
        work.report(&format!("ε = {epsilon}"));
        let by_group: accounting::Result<_> =
            VARIANCE_GROUPS.par_iter().map(|group| els_variance(epsilon, *group, BUDGET)).collect();
        let els: accounting::Result<Vec<f64>> =
            BUDGETS.par_iter().map(|budget| els_variance(epsilon, RECORDS, *budget as f64)).collect();
        let users = uls_noise(epsilon)?;
        let alike = (users * NORM / COHORT).powi(2);
        let conjectured = els_noise(epsilon, RECORDS, COHORT * RECORDS as f64)? / (RECORDS as f64 * users);
        let by_budget = Curves::of_whole(&BUDGETS)
            .with(ELS, els?)
            .with(ALIKE, BUDGETS.map(|_| alike))
            .with(DIVERSE, BUDGETS.map(|budget| alike / (budget as f64 / COHORT)));
        Ok(Self { epsilon, by_group: by_group?, by_budget, conjectured })
    }

    fn spread_over_groups(&self) -> f64 {
        let most = self.by_group.iter().copied().fold(0.0, f64::max);
        most / self.by_group.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// Where a line has less variance than ELS.
    fn places_below_els(&self, name: &str) -> String {
        let less = BUDGETS.iter().filter(|b| self.by_budget.at(name, **b) < self.by_budget.at(ELS, **b));
        let less: Vec<String> = less.map(u64::to_string).collect();
        let epsilon = self.epsilon;
        if less.is_empty() {
            return format!("nowhere at ε = {epsilon}");
        }
        format!("for B = {} at ε = {epsilon}", less.join(", "))
    }
}

/// Figure 2: variance of the noise on one gradient, sampling records (ELS) or users (ULS).
pub fn variances(work: &Work) -> anyhow::Result<Findings> {
    let all = EPSILONS.map(|epsilon| Variances::new(work, epsilon));
    let all = all.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    let mut by_group = Curves::of_whole(&VARIANCE_GROUPS);
    for one in &all {
        by_group.add(format!("ε = {}", one.epsilon), one.by_group.iter().copied());
    }
    let mut tables = vec![by_group.table("Variance of ELS over G, B = 64", "G", Cell::whole, 4)];
    let y = || Axis::log("variance");
    let mut charts = vec![by_group.chart("ELS, B = 64", Axis::log("G, most records of one user"), y())];
    for Variances { epsilon, by_budget, .. } in &all {
        let title = format!("Variance over the budget, ε = {epsilon}");
        tables.push(by_budget.table(title, "B", Cell::whole, 4));
        let x = Axis::log("B, records a round");
        charts.push(by_budget.chart(format!("ε = {epsilon}, M = 16"), x, y()));
    }
    Ok(Findings { claims: claims_on_variances(&all), tables, charts, ..Findings::default() })
}

fn claims_on_variances(all: &[Variances]) -> Vec<Claim> {
    let shown = |value: fn(&Variances) -> f64| {
        all.iter()
            .map(|one| format!("{:.3} at ε = {}", value(one), one.epsilon))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let places = |name| all.iter().map(|one| one.places_below_els(name)).collect::<Vec<_>>().join("; ");
    let last = BUDGETS[BUDGETS.len() - 1];
    let at = |one: &Variances, name| one.by_budget.at(name, last);
    claims![
        all.iter().all(|one| one.spread_over_groups() < 1.2) =>
            "largest over least: {}", shown(Variances::spread_over_groups);
        at(&all[0], DIVERSE) < at(&all[0], ELS) => "less {}", places(DIVERSE);
        all.iter().all(|one| at(one, ELS) <= at(one, ALIKE)) => "ULS has less {}", places(ALIKE);
        all.iter().all(|one| one.conjectured <= 1.0 + 1e-3) =>
            "σ_ELS/(K·σ_ULS): {}", shown(|one| one.conjectured);
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_records_of_groups_of_one_are_the_same() {
        let both = [uls_noise(4.0).unwrap(), els_noise(4.0, 1, COHORT).unwrap()];
        assert_eq!(both[0], both[1]);
        // Golden: ε = 4, q = 1/64, 1000 rounds, δ = 1e-6.
        assert!((both[0] - 0.928).abs() < 1e-3, "{both:?}");
    }
}
