//! papers/004, Figure 2: variance of the noise on one gradient, sampling records (ELS) or users (ULS).

use accounting::calibration::{self, Target};
use accounting::user_level;
use plot::{Axis, Chart, Lines, Series};
use rayon::prelude::*;

use super::item::{Cell, Claim, Found, Item, Source, Table};
use super::work::Work;

pub const ITEM: Item = Item {
    name: "user-level-figure-2",
    source: Source::UserLevel,
    title: "Figure 2: variance of the noise of ELS and ULS",
    shows: "Variance of the noise on the mean gradient for N = 1024 users of K = 32 records, T = 1000 rounds. (a) ELS at a \
            compute budget of B = 64 records a round over G: G hardly matters. (b) ELS with G = K, and ULS with M = 16 users \
            a round, B/M records each, over B: where a user's gradients all point one way ULS has more noise, where they \
            are as diverse as can be it has less, for small ε or a large budget.",
    timed: false,
    make,
};

const USERS: f64 = 1024.0;
const RECORDS: u64 = 32;
const ROUNDS: u64 = 1000;
const DELTA: f64 = 1e-6;
/// The largest norm of one record's gradient.
const NORM: f64 = 10.0;
const EPSILONS: [f64; 4] = [1.0, 4.0, 16.0, 64.0];
const BUDGET: f64 = 64.0;
const GROUPS: [u64; 6] = [1, 2, 4, 8, 16, 32];
const COHORT: f64 = 16.0;
const BUDGETS: [u64; 6] = [16, 32, 64, 128, 256, 512];

/// σ of ELS with groups of G, at B records a round.
fn els_noise(epsilon: f64, group: u64, budget: f64) -> accounting::Result<f64> {
    let p = budget / (group as f64 * USERS);
    calibration::noise_multiplier(Target::from((epsilon, DELTA)), |sigma| {
        Ok(user_level::round(sigma, p, group)?.times(ROUNDS))
    })
}

fn els_variance(epsilon: f64, group: u64, budget: f64) -> accounting::Result<f64> {
    Ok((els_noise(epsilon, group, budget)? * NORM / budget).powi(2))
}

fn uls_noise(epsilon: f64) -> accounting::Result<f64> {
    // Users are to ULS what records are to ELS with groups of one.
    els_noise(epsilon, 1, COHORT)
}

/// Variances at one ε.
struct Curves {
    epsilon: f64,
    /// ELS over [`GROUPS`] at [`BUDGET`].
    by_group: Vec<f64>,
    /// Over [`BUDGETS`].
    els: Vec<f64>,
    uls_alike: Vec<f64>,
    uls_diverse: Vec<f64>,
    /// σ_ELS / (K·σ_ULS) at the largest budget, where both sample as often.
    conjectured: f64,
}

impl Curves {
    fn of(work: &Work, epsilon: f64) -> anyhow::Result<Self> {
        work.says(&format!("ε = {epsilon}"));
        let by_group: accounting::Result<_> =
            GROUPS.par_iter().map(|group| els_variance(epsilon, *group, BUDGET)).collect();
        let els: accounting::Result<_> =
            BUDGETS.par_iter().map(|budget| els_variance(epsilon, RECORDS, *budget as f64)).collect();
        let users = uls_noise(epsilon)?;
        let uls_alike = BUDGETS.iter().map(|_| (users * NORM / COHORT).powi(2)).collect();
        let diverse = |budget: &u64| (users * NORM / COHORT).powi(2) / (*budget as f64 / COHORT);
        let conjectured = els_noise(epsilon, RECORDS, COHORT * RECORDS as f64)? / (RECORDS as f64 * users);
        let uls_diverse = BUDGETS.iter().map(diverse).collect();
        Ok(Self { epsilon, by_group: by_group?, els: els?, uls_alike, uls_diverse, conjectured })
    }

    fn spread_over_groups(&self) -> f64 {
        let most = self.by_group.iter().copied().fold(0.0, f64::max);
        most / self.by_group.iter().copied().fold(f64::INFINITY, f64::min)
    }
}

fn make(work: &Work) -> anyhow::Result<Found> {
    let curves: anyhow::Result<Vec<Curves>> =
        EPSILONS.iter().map(|epsilon| Curves::of(work, *epsilon)).collect();
    let curves = curves?;
    Ok(Found {
        setting: "The N, K, T, B and M named above, δ = 1e-6 and gradients of norm at most 10 (App. B). The values of ε are \
                  not printed there; these are those of the paper's experiments. σ is the smallest at which the mixture \
                  account keeps ε, with p = B/(G·N) for ELS and q = M/N for ULS; the variance is (σL/B)² and (σL/M)²."
            .into(),
        claims: claims(&curves),
        tables: std::iter::once(by_group(&curves)).chain(curves.iter().map(by_budget)).collect(),
        remarks: vec!["Published as curves without numbers, so only what is said of them is compared.".into()],
        charts: charts(&curves),
    })
}

fn claims(curves: &[Curves]) -> Vec<Claim> {
    let shown = |value: fn(&Curves) -> f64| {
        let of = |curves: &Curves| format!("{:.3} at ε = {}", value(curves), curves.epsilon);
        curves.iter().map(of).collect::<Vec<_>>().join(", ")
    };
    let last = BUDGETS.len() - 1;
    let places = |than: fn(&Curves) -> &Vec<f64>| {
        let less = |curves: &Curves| {
            let of = |budget: &usize| than(curves)[*budget] < curves.els[*budget];
            (0..=last).filter(of).map(|i| BUDGETS[i].to_string()).collect::<Vec<_>>()
        };
        let at = |curves: &Curves| match less(curves) {
            none if none.is_empty() => format!("nowhere at ε = {}", curves.epsilon),
            all => format!("for B = {} at ε = {}", all.join(", "), curves.epsilon),
        };
        curves.iter().map(at).collect::<Vec<_>>().join("; ")
    };
    let alike = curves.iter().all(|curves| curves.els[last] <= curves.uls_alike[last]);
    let small = &curves[0];
    vec![
        Claim::new(
            "G has almost no effect on the variance of ELS",
            format!("largest over least: {}", shown(Curves::spread_over_groups)),
            curves.iter().all(|curves| curves.spread_over_groups() < 1.2),
        ),
        Claim::new(
            "with diverse gradients ULS has less noise where ε is small or the budget large",
            format!("less {}", places(|curves| &curves.uls_diverse)),
            small.uls_diverse[last] < small.els[last],
        ),
        Claim::new(
            "with gradients that all point one way ELS has less noise at the largest budget",
            format!("ULS has less {}", places(|curves| &curves.uls_alike)),
            alike,
        ),
        Claim::new(
            "Conjecture 1: σ_ELS ≤ K·σ_ULS where both sample as often",
            format!("σ_ELS/(K·σ_ULS): {}", shown(|curves| curves.conjectured)),
            curves.iter().all(|curves| curves.conjectured <= 1.0 + 1e-3),
        ),
    ]
}

fn by_group(curves: &[Curves]) -> Table {
    let header = std::iter::once("G".to_owned()).chain(curves.iter().map(|c| format!("ε = {}", c.epsilon)));
    let mut table = Table::new("Variance of ELS over G, B = 64", header);
    for (place, group) in GROUPS.iter().enumerate() {
        let cells = curves.iter().map(|curves| Cell::number(curves.by_group[place], 4));
        table.rows.push(std::iter::once(Cell::from(*group)).chain(cells).collect());
    }
    table
}

fn by_budget(curves: &Curves) -> Table {
    let header = ["B", "ELS, G = 32", "ULS, L_ULS = L_ELS", "ULS, L_ULS = L_ELS/√G"];
    let mut table = Table::new(format!("Variance over the budget, ε = {}", curves.epsilon), header);
    for (place, budget) in BUDGETS.iter().enumerate() {
        let of = [&curves.els, &curves.uls_alike, &curves.uls_diverse];
        let cells = of.map(|values| Cell::number(values[place], 4));
        table.rows.push(std::iter::once(Cell::from(*budget)).chain(cells).collect());
    }
    table
}

fn charts(curves: &[Curves]) -> Vec<Chart> {
    let points = |xs: &[u64], values: &[f64]| {
        xs.iter().zip(values).map(|(x, value)| (*x as f64, (*value).into())).collect()
    };
    let y = || Axis::log("variance");
    let groups = curves
        .iter()
        .map(|curves| Series::new(format!("ε = {}", curves.epsilon), points(&GROUPS, &curves.by_group)));
    let mut charts = vec![Chart::Lines(Lines {
        title: "ELS, B = 64".into(),
        x: Axis::log("G, most records of one user"),
        y: y(),
        series: groups.collect(),
    })];
    charts.extend(curves.iter().map(|curves| {
        let lines = [
            ("ELS, G = 32", &curves.els),
            ("ULS, L_ULS = L_ELS", &curves.uls_alike),
            ("ULS, L_ULS = L_ELS/√G", &curves.uls_diverse),
        ];
        Chart::Lines(Lines {
            title: format!("ε = {}, M = 16", curves.epsilon),
            x: Axis::log("B, records a round"),
            y: y(),
            series: lines.map(|(name, values)| Series::new(name, points(&BUDGETS, values))).to_vec(),
        })
    }));
    charts
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
