//! The search: runs a target on mutated inputs. Inputs with a new outcome join the pool that is mutated further.

use std::{
    any::Any,
    collections::HashSet,
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
};

use anyhow::Context;
use dice::Dice;

use crate::{Target, mutate::mutate};

/// Memory limit of the process, so that one input cannot exhaust the machine.
const MEMORY: u64 = 8 << 30;

/// Most inputs in the pool.
const POOL: usize = 4_096;

#[derive(Debug, Default)]
pub struct SearchResult {
    pub runs: u64,
    pub answers: usize,
    /// The fault's message and the input that caused it.
    pub fault: Option<(String, Vec<u8>)>,
}

/// Limits the memory of this process. An allocation beyond the limit ends it, and its last input is in the file `last`.
pub fn limit_memory() -> anyhow::Result<()> {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let limit = Rlimit { current: Some(MEMORY), maximum: Some(MEMORY) };
    setrlimit(Resource::As, limit).context("limit the memory")
}

/// Returns the stored inputs of the target: those that once caused a fault.
pub fn kept(corpus: &Path, target: &Target) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(corpus.join(target.name)).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths.iter().filter_map(|path| fs::read(path).ok()).collect()
}

/// Runs the target on the seeds and the corpus, then on mutations of them while `wants_more` returns true. Stops at the
/// first fault.
pub fn run(
    target: &Target,
    kept: Vec<Vec<u8>>,
    last: Option<&Path>,
    seed: u64,
    mut wants_more: impl FnMut(u64) -> bool,
) -> anyhow::Result<SearchResult> {
    let mut found = SearchResult::default();
    let mut dice = Dice::new(seed);
    let mut outcomes = HashSet::new();
    let mut pool = Vec::new();
    for input in (target.seeds)().into_iter().chain(kept) {
        if try_one(target, input.clone(), &mut found, &mut outcomes, last)?.is_none() {
            return Ok(found);
        }
        pool.push(input);
    }
    while wants_more(found.runs) {
        let any = |dice: &mut Dice| dice.below(pool.len() as u64) as usize;
        let from = any(&mut dice);
        let other = any(&mut dice);
        let input = mutate(&pool[from], &pool[other], &mut dice);
        match try_one(target, input.clone(), &mut found, &mut outcomes, last)? {
            None => break,
            Some(true) if pool.len() < POOL => pool.push(input),
            Some(_) => {}
        }
    }
    found.answers = outcomes.len();
    Ok(found)
}

/// Runs one input and returns whether its outcome is new; `None` where the target panicked.
fn try_one(
    target: &Target,
    input: Vec<u8>,
    found: &mut SearchResult,
    outcomes: &mut HashSet<String>,
    last: Option<&Path>,
) -> anyhow::Result<Option<bool>> {
    if let Some(last) = last {
        fs::write(last, &input)?;
    }
    found.runs += 1;
    match catch_unwind(AssertUnwindSafe(|| (target.run)(&input))) {
        Ok(answer) => Ok(Some(outcomes.insert(answer))),
        Err(panic) => {
            found.fault = Some((text_of(&*panic), input));
            Ok(None)
        }
    }
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message").to_owned()
}
