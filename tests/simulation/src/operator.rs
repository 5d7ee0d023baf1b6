//! An operator: reshards running jobs and asks for checkpoints, whatever state the cluster is in.

use std::sync::Arc;
use std::time::Duration;

use dice::Dice;
use tokio::time::{sleep, timeout};

use crate::trainer::connect;
use crate::world::World;

const CALL_TIMEOUT: Duration = Duration::from_secs(5);

pub async fn operate(world: Arc<World>) -> turmoil::Result {
    let mut dice = Dice::named(world.seed, "operator");
    let jobs = connect()?.jobs();
    for _ in 0..dice.below(4) {
        let pause = dice.millis(300, 2500);
        sleep(pause).await;
        let job = &dice.pick(&world.cases).job;
        let (what, done) = if world.has_store() && dice.one_in(2) {
            ("checkpoint", timeout(CALL_TIMEOUT, jobs.checkpoint(job)).await.is_ok_and(|done| done.is_ok()))
        } else {
            let shards = dice.within(1, 3) as u32;
            ("reshard", timeout(CALL_TIMEOUT, jobs.reshard(job, shards)).await.is_ok_and(|done| done.is_ok()))
        };
        let mut history = world.history();
        if done {
            history.fault(what, job.as_str())
        } else {
            history.event(format!("{what} of {job} failed"))
        }
    }
    Ok(())
}
