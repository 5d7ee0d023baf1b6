//! Every state that the release protocol can reach, for a small cluster: two workers, two jobs of three rows and one
//! shard each, one crash, one partition, one rewind, messages lost, late and doubled at will. Breadth first, so that
//! a violation comes with a shortest way to it.
//!
//! A client may send any request to any node at any time, with any token that was ever issued: this covers lost, late
//! and doubled messages. The real ledger decides what may be bound (`rule`).
//!
//! States that differ in names alone (`names`), or in what no later step reads (`unread`), count as one. Each is
//! stored whole, in 16 bytes (`packed`): no hash stands for a state, so a collision cannot hide one. Checkers that
//! store 64-bit fingerprints of states (`stateright`) would give up this promise.

mod copies;
mod copy_rules;
mod copy_state;
mod faults;
mod model;
mod names;
mod packed;
mod rule;
mod state;
mod unread;

use std::collections::HashSet;

pub use copies::{CopyExploration, CopyModel};
pub use copy_rules::{AnchorRule, FreshRule};
pub use copy_state::{CopyAction, CopyRules};
pub use model::{Action, Model, Rules, Step};
pub use packed::Packed;
pub use rule::BindRule;
pub use state::State;

/// The result of an exploration.
#[derive(Debug)]
pub struct Exploration {
    pub states: usize,
    pub transitions: u64,
    pub depth: usize,
    /// There is no further state.
    pub is_complete: bool,
    /// The violation and the actions that lead to it, each with the names of the canonical state before it.
    pub violation: Option<(String, Vec<Action>)>,
}

/// Visits all states, or those up to the first violation, or the nearest ones if there are more than `most`.
pub fn explore(model: &Model<'_>, most: usize) -> Exploration {
    let first = model.canonical(&State::first(model.jobs));
    let mut seen = HashSet::from([first]);
    let mut found = StateTable { states: vec![first], parents: vec![0] };
    let mut transitions = 0;
    let mut depth = 0;
    let mut level = 0..1;
    while !level.is_empty() && found.states.len() <= most {
        for from in level.clone() {
            let state = found.states[from].state();
            for (action, outcome) in model.steps(&state) {
                transitions += 1;
                match outcome {
                    // Most requests change nothing.
                    Ok(reached) if reached == state => {}
                    Ok(reached) => {
                        let reached = model.canonical(&reached);
                        if seen.insert(reached) {
                            found.states.push(reached);
                            found.parents.push(from as u32);
                        }
                    }
                    Err(what) => {
                        let mut way = found.way_to(model, from);
                        way.push(action);
                        let states = found.states.len();
                        let violation = Some((what, way));
                        return Exploration { states, transitions, depth, is_complete: false, violation };
                    }
                }
            }
        }
        depth += 1;
        level = level.end..found.states.len();
    }
    let states = found.states.len();
    Exploration { states, transitions, depth, is_complete: level.is_empty(), violation: None }
}

/// The states in the order in which they were found.
struct StateTable {
    states: Vec<Packed>,
    /// For each state, the index of the state from which it was first reached.
    parents: Vec<u32>,
}

impl StateTable {
    /// The actions are not kept: each is the one that leads from a state to the next.
    fn way_to(&self, model: &Model<'_>, mut at: usize) -> Vec<Action> {
        let mut way = Vec::new();
        while at > 0 {
            let before = self.parents[at] as usize;
            let steps = model.steps(&self.states[before].state());
            let leads = |(_, outcome): &Step| {
                outcome.as_ref().is_ok_and(|reached| model.canonical(reached) == self.states[at])
            };
            way.extend(steps.into_iter().find(leads).map(|(action, _)| action));
            at = before;
        }
        way.reverse();
        way
    }
}
