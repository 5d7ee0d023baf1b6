//! Random settings over the accounts, each against the masses of finitely many outputs.
//!
//! Cutting outputs into bins is a function of them, so the δ of the bins is a lower bound of the mechanism's, whatever the bins are; so
//! is the δ of one data set where the account is for the worst of all. Bins are fine enough for that bound to be close.

// Helpers outside `#[test]` functions are tests too.
#![allow(clippy::unwrap_used)]

mod draw;
mod outputs;

use std::time::Instant;

use accounting::{Account, AccountingError, Event, Neighbouring};

use self::draw::{Dice, Setting, draw};
use self::outputs::{Outputs, delta, gathered};

/// Width of the bins of losses in which outputs are gathered before they are composed.
const WIDTH: f64 = 0.001;

/// A setting: events that are composed, the least that δ may be at ε, and what the account says.
struct Comparison {
    events: Vec<Event>,
    relation: Neighbouring,
    epsilon: f64,
    least: f64,
    found: f64,
    /// What is wrong.
    fault: Option<String>,
    /// True where δ was compared from above too.
    is_close: bool,
}

/// Draws a setting by its number and a seed, and compares it.
fn compare(seed: u64, number: u64) -> Comparison {
    let mut dice = Dice::new(seed, number);
    let relation = match dice.below(4) {
        0 => Neighbouring::Replace,
        1 => Neighbouring::AddRemove,
        _ => Neighbouring::ZeroOut,
    };
    let parts: Vec<Setting> = (0..=dice.below(2)).map(|_| draw(&mut dice, relation)).collect();
    let has_size = |part: &Setting| matches!(part.event, Event::WithoutReplacementGaussian { .. });
    let relation = if parts.iter().any(has_size) { Neighbouring::ZeroOut } else { relation };
    let outputs: Vec<Outputs> = parts.iter().map(|part| gathered(part.outputs.clone(), WIDTH)).collect();
    let nothing = vec![(1.0, 1.0)];
    let epsilon = 1.5 * dice.unit();
    let least = delta(&outputs[0], outputs.get(1).unwrap_or(&nothing), epsilon);
    let events: Vec<Event> = parts.iter().map(|part| part.event.clone()).collect();
    let account = Account::new(&Event::Composed { events: events.clone() }, relation).unwrap();
    let found = account.delta(epsilon).unwrap();
    let is_close = parts.iter().all(|part| part.is_close);
    let mut fault = None;
    if found < least * (1.0 - 1e-9) - 1e-14 {
        fault = Some("δ is below the truth".to_owned());
    }
    if least > 1e-9 {
        // Where losses have no bound, no ε has a δ that small.
        let has_no_bound = |part: &Setting| matches!(part.event, Event::ApproximateDp { .. });
        let again = match account.epsilon(least * (1.0 - 1e-9)) {
            Err(AccountingError::OutOfReach { .. }) if parts.iter().any(has_no_bound) => f64::INFINITY,
            found => found.unwrap(),
        };
        if again < epsilon * (1.0 - 1e-6) - 1e-9 {
            fault = Some(format!("ε is {again}, below the truth"));
        }
    }
    if is_close && found > 1.03 * least + 1e-6 {
        fault = Some("δ is far above the truth".to_owned());
    }
    Comparison { events, relation, epsilon, least, found, fault, is_close }
}

impl Comparison {
    /// Returns whether the setting was compared from both sides; panics at a fault.
    fn checked(self, number: u64) -> bool {
        let Self { events, relation, epsilon, least, found, fault, is_close } = self;
        let what = format!("{number}: {events:?} {relation:?}, δ {found:e} at {epsilon}, {least:e} at least");
        assert!(fault.is_none(), "{what}: {}", fault.unwrap_or_default());
        is_close
    }
}

#[test]
fn no_account_is_below_its_outputs() {
    assert!((0..60).filter(|&number| compare(31, number).checked(number)).count() > 15);
}

/// The number in a variable of the environment, or a default.
fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("it is a number"))
}

#[test]
#[ignore = "minutes: make settings"]
fn no_account_of_a_thousand_is_below_its_outputs() {
    let first = from_environment("FIRST", 0);
    let seed = from_environment("SEED", 77);
    let mut close = 0;
    let mut faults = 0;
    for number in first..first + from_environment("COUNT", 1000) {
        let began = Instant::now();
        let Comparison { events, relation, epsilon, least, found, fault, is_close } = compare(seed, number);
        close += u64::from(is_close);
        faults += u64::from(fault.is_some());
        let kinds: Vec<&str> = events.iter().map(Event::name).collect();
        let time = began.elapsed().as_secs_f64();
        eprintln!(
            "{number} {kinds:?} {relation:?}: δ {found:.3e} at {epsilon:.3}, {least:.3e} at least, {time:.2} s"
        );
        if let Some(fault) = fault {
            eprintln!("{number}: {fault}: {events:?}");
        }
    }
    eprintln!("settings from {first} of seed {seed}: {close} compared from both sides, {faults} faults");
    assert_eq!(faults, 0);
}
