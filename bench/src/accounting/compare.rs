//! One setting by both sides in turn.

use std::time::Instant;

use accounting::pld::ACCURACY;
use accounting::{Account, Neighbouring};

use super::grid::{Mechanism, Setting};
use super::peer::{Answer, Library};
use super::row::{Fine, Row, Theirs};
use crate::comparison::{Comparison, spread};
use reproduce::measure::Spread;

/// Turns of each side.
const TURNS: usize = 3;
/// Ours in each turn.
const CALLS: usize = 5;
/// Seconds up to which the peer is asked again.
const SHORT: f64 = 5.0;
/// The finer grid of ours.
const FINE: f64 = ACCURACY / 100.0;

/// Error: ours has none; what fails on the other side is a result.
pub fn compare(setting: &Setting, mut library: Option<&mut Library>) -> anyhow::Result<Row> {
    let mut ours = Vec::with_capacity(TURNS * CALLS);
    let mut theirs: Vec<Answer> = Vec::new();
    let mut failed = None;
    // What is made once is paid for before anything is timed.
    let (figure, _) = once(setting, ACCURACY)?;
    for _ in 0..TURNS {
        for _ in 0..CALLS {
            ours.push(once(setting, ACCURACY)?.1);
        }
        let again = theirs.first().is_none_or(|first| first.seconds <= SHORT);
        let (Some(library), true, None) = (library.as_mut(), again, &failed) else { continue };
        match library.ask(setting) {
            Ok(answer) => theirs.push(answer),
            Err(error) => failed = Some(format!("{error:#}")),
        }
    }
    let times: Vec<f64> = theirs.iter().map(|answer| answer.seconds).collect();
    let beside = match (theirs.first(), Spread::of(&times), failed) {
        (.., Some(why)) => Comparison::Failed(why),
        (Some(first), Some(seconds), None) => Comparison::Compared(Theirs { figure: first.figure, seconds }),
        _ => Comparison::Alone,
    };
    let fine = match setting.mechanism {
        Mechanism::Gaussian | Mechanism::Tree { .. } => None,
        _ => {
            let (figure, seconds) = once(setting, FINE)?;
            Some(Fine { accuracy: FINE, figure, seconds })
        }
    };
    let seconds = spread(&ours)?;
    Ok(Row { setting: setting.clone(), figure, seconds, fine, beside })
}

/// ε, or ρ of a tree, and the seconds of the whole account, from the event on.
fn once(setting: &Setting, accuracy: f64) -> anyhow::Result<(f64, f64)> {
    let event = setting.event()?;
    let start = Instant::now();
    let account = Account::new(&event, Neighbouring::ZeroOut)?;
    let epsilon = account.epsilon_figure(setting.delta, accuracy)?.value;
    let seconds = start.elapsed().as_secs_f64();
    Ok((if setting.is_tree() { account.rho().unwrap_or(f64::NAN) } else { epsilon }, seconds))
}
