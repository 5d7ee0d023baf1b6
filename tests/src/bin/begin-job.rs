//! Begins a ledger with a job in it that nothing has taken up: copies of the file are then no copies of a ledger in use,
//! so that tests of the Python package have the same noise in several folders. `begin-job LEDGER PLAN KEY`.

use std::{env, error::Error, fs, path::Path};

use ledger::Ledger;
use noise_kernel::JobKey;
use plan::Plan;
use proto::{JobId, Nonce};

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<_> = env::args().skip(1).collect();
    let [ledger, plan, key] = &words[..] else { return Err("usage: begin-job LEDGER PLAN KEY".into()) };
    let plan = Plan::from_path(Path::new(plan))?;
    let key = JobKey::from_bytes(&fs::read(key)?)?;
    Ledger::init(Path::new(ledger), Nonce::from_bytes([1; 32]))?;
    let dimension = release::job::dimension(None, &plan)?;
    let nonce = Nonce::from_bytes([2; 32]);
    let name = JobId::new("default")?;
    let toml = plan.to_toml_string()?;
    let job = release::job::define(name, &plan, toml, dimension, key.commitment(), 1, nonce)?;
    Ledger::open(Path::new(ledger))?.create_job(&job.record, &job.shards)?;
    Ok(())
}
