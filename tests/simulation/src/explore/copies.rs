//! Every state that two processes can reach on two copies of one ledger: one job of two rows, an anchor in a store elsewhere that
//! the original holds at first and the store may lose, ends and starts of processes, leases that run out, and an adoption. The real ledger decides whether it agrees
//! with an anchor, what may be bound, and from which row an adoption draws fresh noise (`copy_rules`).
//!
//! Left out is what the guarantees except: a clone takes over that the anchor agrees with, although the original has bound more
//! since its last renewal; or either one, although the other has bound more, once the store has lost the anchor and no process
//! has written it again for a lease.

use std::collections::{HashMap, HashSet};

use super::copy_rules::{AnchorRule, FreshRule, Openings};
use super::copy_state::{ASKED, Anchor, Copies, CopyAction, CopyRules, Keeper, Process, renewed};
use super::rule::BindRule;
use super::state::{COMMITMENTS, ROWS};

/// Most values that are drawn for openings and writes.
const MOST_DRAWN: u8 = 8;

/// The rules, and how the real ledger applies them.
pub struct CopyModel<'a> {
    pub bind: &'a BindRule,
    pub anchor: &'a AnchorRule,
    pub fresh: &'a FreshRule,
    pub rules: CopyRules,
}

/// The result of an exploration of two copies.
#[derive(Debug)]
pub struct CopyExploration {
    pub states: usize,
    pub transitions: u64,
    /// The states in which the clone has taken over, and those in which it was adopted.
    pub taken_over: usize,
    pub adopted: usize,
    /// The violation and the actions that lead to it.
    pub violation: Option<(String, Vec<CopyAction>)>,
}

type Outcome = Result<Copies, String>;

impl CopyModel<'_> {
    /// Visits all states, breadth first, up to the first violation.
    pub fn explore(&self) -> CopyExploration {
        let first = Copies::first();
        let mut seen = HashSet::from([first]);
        let mut came_by: HashMap<Copies, (Copies, CopyAction)> = HashMap::new();
        let mut level = vec![first];
        let mut found =
            CopyExploration { states: 0, transitions: 0, taken_over: 0, adopted: 0, violation: None };
        while !level.is_empty() {
            let mut next = Vec::new();
            for state in level {
                for (action, outcome) in self.steps(&state) {
                    found.transitions += 1;
                    match outcome {
                        Ok(reached) if seen.insert(reached) => {
                            came_by.insert(reached, (state, action));
                            next.push(reached);
                        }
                        Ok(_) => {}
                        Err(what) => {
                            found.states = seen.len();
                            found.violation = Some((what, way_to(&came_by, state, action)));
                            return found;
                        }
                    }
                }
            }
            level = next;
        }
        let clones = || seen.iter().filter_map(|state| state.processes[1]);
        found.states = seen.len();
        found.taken_over = clones().filter(|clone| matches!(clone.keeper, Keeper::Held { .. })).count();
        found.adopted = clones().filter(|clone| clone.fresh_from.is_some()).count();
        found
    }

    fn steps(&self, state: &Copies) -> Vec<(CopyAction, Outcome)> {
        let mut steps = Vec::new();
        if let [Some(original), None] = state.processes {
            let clone = Process { is_up: true, keeper: Keeper::Out, is_leased: false, ..original };
            steps.push((CopyAction::Clone, Ok(state.with(1, clone))));
        }
        if state.losses_left > 0 && state.anchor.is_some() {
            let lost = Copies { anchor: None, losses_left: 0, ..*state };
            steps.push((CopyAction::Lose, Ok(lost)));
        }
        for at in 0..2 {
            if let Some(process) = state.processes[at] {
                self.steps_of(state, at, process, &mut steps);
            }
        }
        steps
    }

    fn steps_of(&self, state: &Copies, at: usize, process: Process, steps: &mut Vec<(CopyAction, Outcome)>) {
        let mut step = |action, reached: Copies| steps.push((action, Ok(reached)));
        if !process.is_up {
            step(CopyAction::Start { at }, state.with(at, Process { is_up: true, ..process }));
            if at == 1 && process.fresh_from.is_none() {
                let adopted = self.adopted(process);
                step(CopyAction::Adopt, state.with(at, adopted));
            }
            return;
        }
        if state.ends_left > 0 {
            let ended =
                Process { is_up: false, keeper: Keeper::Out, is_leased: false, is_stopped: false, ..process };
            step(CopyAction::End { at }, Copies { ends_left: state.ends_left - 1, ..state.with(at, ended) });
        }
        if process.is_leased && process.fresh_from.is_none() {
            step(CopyAction::LeaseEnds { at }, state.with(at, Process { is_leased: false, ..process }));
        }
        if process.fresh_from.is_none() && !process.is_stopped {
            self.with_anchor(state, at, process, &mut step);
        }
        let is_leased = process.is_leased || self.rules.outlives_lease;
        if is_leased && !process.is_stopped {
            self.binds(state, at, process, steps);
        }
    }

    /// The adopted one has an id of its own, and so an anchor that no other process knows: it is taken to hold that.
    fn adopted(&self, process: Process) -> Process {
        let from = self.fresh.from(&process.rows);
        let mut rows = process.rows;
        rows[from.min(ROWS)..].fill(0);
        let fresh_from = if self.rules.keeps_branch { ROWS } else { from };
        let rows = if self.rules.keeps_branch { process.rows } else { rows };
        Process { rows, is_leased: true, is_stopped: false, fresh_from: Some(fresh_from as u8), ..process }
    }

    fn agrees(&self, process: Process, anchor: Anchor) -> bool {
        let opening = match process.opening {
            opening if opening == anchor.opening => Openings::Latest,
            opening if opening == anchor.before => Openings::Before,
            _ => Openings::Other,
        };
        let has_seen_more = anchor.height > process.height && !self.rules.ignores_height;
        self.anchor.agrees(opening, anchor.is_settled, has_seen_more)
    }

    /// Reading, watching, taking up and renewing the anchor.
    fn with_anchor(
        &self,
        state: &Copies,
        at: usize,
        process: Process,
        step: &mut impl FnMut(CopyAction, Copies),
    ) {
        let stopped = Process { is_stopped: true, is_leased: false, keeper: Keeper::Out, ..process };
        let differs = state.anchor.is_some_and(|anchor| !self.agrees(process, anchor));
        let has_draws = state.drawn + 2 <= MOST_DRAWN;
        match process.keeper {
            Keeper::Out if differs => step(CopyAction::Read { at }, state.with(at, stopped)),
            Keeper::Out => {
                let written = state.anchor.map(|anchor| anchor.written);
                let watching = Process { keeper: Keeper::Watching(written), ..process };
                step(CopyAction::Read { at }, state.with(at, watching));
            }
            Keeper::Watching(_) if differs => step(CopyAction::Read { at }, state.with(at, stopped)),
            Keeper::Watching(written) if written != state.anchor.map(|anchor| anchor.written) => {
                step(CopyAction::Read { at }, state.with(at, Process { keeper: Keeper::Out, ..process }));
            }
            Keeper::Watching(_) if has_draws => {
                if let Some(taken) = self.taken_up(state, at, process) {
                    step(CopyAction::TakeUp { at }, taken);
                }
            }
            Keeper::Announced { opening, written } if process.opening != opening => {
                let keeper = Keeper::Announced { opening, written };
                step(CopyAction::Note { at }, state.with(at, Process { opening, keeper, ..process }));
            }
            Keeper::Announced { written, .. } | Keeper::Held { written } if has_draws => {
                if state.anchor.is_none() && !process.is_leased && !self.rules.writes_unwatched {
                    let gone = Process { keeper: Keeper::Out, ..process };
                    step(CopyAction::Renew { at }, state.with(at, gone));
                    return;
                }
                let is_own = state.anchor.is_none_or(|anchor| anchor.written == written);
                let reached = if is_own || self.rules.writes_over {
                    renewed(state, at, process)
                } else {
                    state.with(at, stopped)
                };
                step(CopyAction::Renew { at }, reached);
            }
            _ => {}
        }
    }

    /// The anchor was not written while it was watched, which takes longer than any lease: so another process has none by now.
    /// `None` for what the guarantees except.
    fn taken_up(&self, state: &Copies, at: usize, process: Process) -> Option<Copies> {
        let mut reached = *state;
        let other = &mut reached.processes[1 - at];
        let is_held = state.anchor.is_none_or(|anchor| usize::from(anchor.holder) != at);
        if let Some(other) = other.as_mut().filter(|other| is_held && other.fresh_from.is_none()) {
            let is_same = other.opening == process.opening;
            let has_seen_more = state.anchor.is_some_and(|anchor| anchor.height > process.height);
            if is_same && other.height > process.height && !has_seen_more {
                return None;
            }
            let has_bound_more = (0..ASKED).any(|row| ![0, process.rows[row]].contains(&other.rows[row]));
            if state.anchor.is_none() && has_bound_more {
                return None;
            }
            if !self.rules.is_not_watched {
                other.is_leased = false;
            }
        }
        let opening = reached.draw();
        let written = reached.draw();
        let before = process.opening;
        let height = process.height;
        let anchor = Anchor { opening, before, is_settled: false, height, written, holder: at as u8 };
        reached.anchor = Some(anchor);
        Some(reached.with(at, Process { keeper: Keeper::Announced { opening, written }, ..process }))
    }

    fn binds(&self, state: &Copies, at: usize, process: Process, steps: &mut Vec<(CopyAction, Outcome)>) {
        for (row, commitment) in
            (0..ASKED).flat_map(|row| (1..=COMMITMENTS as u8).map(move |commitment| (row, commitment)))
        {
            // Rows that neither has bound get one commitment from each process: the names of the two do not matter.
            let is_own = usize::from(commitment) == at + 1 || process.rows[row] != 0;
            if !is_own || !self.bind.grants(&process.rows, row, commitment) {
                continue;
            }
            let mut bound = process;
            bound.height += u8::from(bound.rows[row] == 0);
            bound.rows[row] = commitment;
            let mut reached = state.with(at, bound);
            let is_fresh = process.fresh_from.is_some_and(|from| row >= usize::from(from));
            let granted = &mut reached.granted[usize::from(is_fresh)][row];
            *granted |= 1 << commitment;
            let is_once = granted.count_ones() == 1;
            let outcome = if is_once { Ok(reached) } else { Err(format!("row {row} was released twice")) };
            steps.push((CopyAction::Bind { at, row, commitment }, outcome));
        }
    }
}

fn way_to(
    came_by: &HashMap<Copies, (Copies, CopyAction)>,
    mut state: Copies,
    last: CopyAction,
) -> Vec<CopyAction> {
    let mut way = vec![last];
    while let Some((before, action)) = came_by.get(&state) {
        way.push(*action);
        state = *before;
    }
    way.reverse();
    way
}
