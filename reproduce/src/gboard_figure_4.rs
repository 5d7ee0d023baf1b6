//! papers/002, Figure 4: ρ of tree noise as population, report goal and min-sep change.

use plot::Axis;
use strategy::{Strategy, Tree};

use super::extrapolated::{Panel, Point, Runner};
use super::item::{Claim, Found, Item, Source};
use super::production::{REPORT_GOAL, TREE_NOISE};
use super::work::Work;

pub const ITEM: Item = Item {
    name: "gboard-figure-4",
    source: Source::Gboard,
    title: "Figure 4: ρ as population, report goal and min-sep change",
    shows: "Three panels for tree noise: ρ over the report goal for populations of one and of three million, with noise \
            proportional to the report goal and the largest MinS that the population allows; and ρ over MinS at a report \
            goal of 6500 with as many participations as fit. More clients a round, fewer rounds and a larger MinS all \
            cost less.",
    timed: false,
    make,
};

const ROUNDS: [u64; 4] = [500, 1000, 2000, 3000];
const REPORT_GOALS: [u64; 10] = [500, 1000, 1500, 2000, 3000, 4000, 5000, 6500, 8000, 10_000];
const SEPARATIONS: [u64; 13] = [20, 50, 100, 153, 200, 300, 400, 500, 600, 800, 1000, 1500, 2000];
const NAME: &str = "tree";

fn make(work: &Work) -> anyhow::Result<Found> {
    let strategy = Strategy::Tree(Tree::default());
    let tree = [Runner { name: NAME.into(), strategy, noise: TREE_NOISE, rounds: u64::MAX }];
    let by_goal = |millions: u64| {
        let title = format!("Population {millions} million");
        work.says(&title);
        Panel::over(title, Axis::log("report goal"), &REPORT_GOALS, (&tree, &ROUNDS), |goal, n| {
            Point::of_population(millions * 1_000_000, n, goal)
        })
    };
    let one = by_goal(1)?;
    let three = by_goal(3)?;
    let title = format!("Report goal {REPORT_GOAL}, as many participations as fit");
    let by_min_sep =
        Panel::over(title, Axis::log("min-sep"), &SEPARATIONS, (&tree, &ROUNDS), |b, n| Point::at(n, b))?;
    let panels = [one, three, by_min_sep];
    Ok(Found {
        setting: "σ = 7·(report goal)/6500. In the first two panels min-sep is ⌊population/report goal⌋ and participations \
                  are ⌈n/min-sep⌉. The rounds are not printed; these cover those of the tables."
            .into(),
        claims: claims(&panels),
        tables: panels.iter().map(Panel::table).collect(),
        remarks: vec![
            "Published as curves without numbers, so only what is said of them is compared.".into(),
            "Steps come where one participation more fits in the rounds, and a tree's ρ rises and falls between them: the \
             worst pattern depends on how participations fall on its blocks."
                .into(),
        ],
        charts: panels.iter().map(Panel::chart).collect(),
    })
}

fn line(n: u64) -> String {
    format!("{NAME}, n = {n}")
}

fn claims([one, three, by_min_sep]: &[Panel; 3]) -> Vec<Claim> {
    let small = three.at(&line(2000), 500);
    let large = three.at(&line(2000), 6500);
    let narrow = by_min_sep.at(&line(2000), 100);
    let wide = by_min_sep.at(&line(2000), 1000);
    let hard = one.at(&line(3000), REPORT_GOAL);
    let fewer =
        ROUNDS.windows(2).all(|n| three.at(&line(n[0]), REPORT_GOAL) < three.at(&line(n[1]), REPORT_GOAL));
    vec![
        Claim::new(
            "a larger report goal costs less",
            format!("three million people, 2000 rounds: ρ = {large:.3} at 6500, {small:.3} at 500"),
            large < small,
        ),
        Claim::new(
            "a larger min-sep costs less",
            format!("2000 rounds: ρ = {wide:.3} at 1000, {narrow:.3} at 100"),
            wide < narrow,
        ),
        Claim::new(
            "fewer rounds cost less",
            format!("at a report goal of 6500, at every step from {ROUNDS:?}: {fewer}"),
            fewer,
        ),
        Claim::new(
            "a population of a million allows MinS below 153 at 6500, and no strong guarantee in 3000 rounds",
            format!("min-sep {}, ρ = {hard:.2}", 1_000_000 / REPORT_GOAL),
            1_000_000 / REPORT_GOAL <= 153 && hard > 2.0,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_the_curves_holds() {
        let found = make(&Work::new(0)).unwrap();
        found.claims.iter().for_each(|claim| assert!(claim.holds, "{}: {}", claim.paper, claim.here));
    }
}
