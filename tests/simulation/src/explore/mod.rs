//! Every state that the release protocol can reach, for a small cluster: two workers, two jobs of three rows and one
//! shard each, one crash, one partition, one rewind, messages lost, late and doubled at will. Breadth first, so that
//! a violation comes with a shortest way to it.
//!
//! A client asks anything of anyone at any time, with any token that was ever handed out: that is what lost, late and
//! doubled messages amount to. What the ledger answers, the real ledger has answered ([`rule`]).

mod model;
mod rule;
mod state;

use std::collections::HashMap;
use std::collections::hash_map::Entry;

pub use model::{Action, Rules};
pub use rule::BindRule;
pub use state::State;

/// What was found.
#[derive(Debug)]
pub struct Explored {
    pub states: usize,
    pub transitions: usize,
    pub depth: usize,
    /// There is no further state.
    pub is_complete: bool,
    /// What must not be, and the actions that lead there.
    pub violation: Option<(String, Vec<Action>)>,
}

/// All states, or those up to the first violation, or the nearest ones where there are more than `most`.
pub fn explore(rules: Rules, bind: &BindRule, most: usize) -> Explored {
    let mut seen: HashMap<State, u32> = HashMap::from([(State::first(), 0)]);
    let mut ways: Vec<(u32, Option<Action>)> = vec![(0, None)];
    let mut open = vec![State::first()];
    let (mut transitions, mut depth) = (0, 0);
    while !open.is_empty() && seen.len() <= most {
        let mut next = Vec::new();
        for state in open.drain(..) {
            let from = seen[&state];
            for (action, outcome) in model::steps(&state, rules, bind) {
                transitions += 1;
                let reached = match outcome {
                    Ok(reached) => reached.canonical(),
                    Err(what) => {
                        let mut way = way_to(&ways, from);
                        way.push(action);
                        let violation = Some((what, way));
                        return Explored {
                            states: seen.len(),
                            transitions,
                            depth,
                            is_complete: false,
                            violation,
                        };
                    }
                };
                if let Entry::Vacant(entry) = seen.entry(reached) {
                    entry.insert(ways.len() as u32);
                    ways.push((from, Some(action)));
                    next.push(reached);
                }
            }
        }
        depth += 1;
        open = next;
    }
    Explored { states: seen.len(), transitions, depth, is_complete: open.is_empty(), violation: None }
}

fn way_to(ways: &[(u32, Option<Action>)], mut at: u32) -> Vec<Action> {
    let mut way = Vec::new();
    while let (before, Some(action)) = ways[at as usize] {
        way.push(action);
        at = before;
    }
    way.reverse();
    way
}
