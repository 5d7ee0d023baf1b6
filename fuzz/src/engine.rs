//! Runs a target on changed inputs. Inputs that were answered in new words join those that are changed further.

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

/// So that what an input can make a decoder take is not all of the machine's memory.
const MEMORY: u64 = 8 << 30;

/// New words of an answer are kept for so many inputs at most.
const POOL: usize = 4_096;

#[derive(Debug, Default)]
pub struct Found {
    pub runs: u64,
    pub answers: usize,
    /// What broke, and on which input.
    pub fault: Option<(String, Vec<u8>)>,
}

/// Limits this process: an allocation beyond that ends it, and the input that did it lies in `last`.
pub fn limit_memory() -> anyhow::Result<()> {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let limit = Rlimit { current: Some(MEMORY), maximum: Some(MEMORY) };
    setrlimit(Resource::As, limit).context("limit the memory")
}

/// Inputs that once broke something, kept for ever.
pub fn kept(corpus: &Path, target: &Target) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(corpus.join(target.name)).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths.iter().filter_map(|path| fs::read(path).ok()).collect()
}

/// Runs on the seeds and what was kept, then on changes of them while `go_on` says so. Stops at the first fault.
pub fn run(
    target: &Target,
    kept: Vec<Vec<u8>>,
    last: Option<&Path>,
    seed: u64,
    mut go_on: impl FnMut(u64) -> bool,
) -> anyhow::Result<Found> {
    let mut found = Found::default();
    let mut dice = Dice::new(seed);
    let mut heard = HashSet::new();
    let mut pool = Vec::new();
    for input in (target.seeds)().into_iter().chain(kept) {
        if try_one(target, input.clone(), &mut found, &mut heard, last)?.is_none() {
            return Ok(found);
        }
        pool.push(input);
    }
    while go_on(found.runs) {
        let any = |dice: &mut Dice| dice.below(pool.len() as u64) as usize;
        let from = any(&mut dice);
        let other = any(&mut dice);
        let input = mutate(&pool[from], &pool[other], &mut dice);
        match try_one(target, input.clone(), &mut found, &mut heard, last)? {
            None => break,
            Some(true) if pool.len() < POOL => pool.push(input),
            Some(_) => {}
        }
    }
    found.answers = heard.len();
    Ok(found)
}

/// Whether the answer is new; `None` where the target broke.
fn try_one(
    target: &Target,
    input: Vec<u8>,
    found: &mut Found,
    heard: &mut HashSet<String>,
    last: Option<&Path>,
) -> anyhow::Result<Option<bool>> {
    if let Some(last) = last {
        fs::write(last, &input)?;
    }
    found.runs += 1;
    match catch_unwind(AssertUnwindSafe(|| (target.run)(&input))) {
        Ok(answer) => Ok(Some(heard.insert(answer))),
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
