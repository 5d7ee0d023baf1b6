//! An adversary of both jobs, like a trainer that restarted without its history: it binds other gradients to the same
//! rows, on abandoned branches too, and sends requests to workers under ended leases and with old tokens.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use client::{Client, Connections, Route};
use dice::Dice;
use futures::future::join_all;
use proto::{JobId, NoiseId, ReleasedRows, RowRange, ServiceError, pb};
use tokio::time::{sleep, timeout};

use crate::cases::{Case, ROWS};
use crate::net;
use crate::run::UNSEEN;
use crate::trainer::connect;
use crate::world::{LEASE_TTL, World};

const CALL_TIMEOUT: Duration = Duration::from_secs(3);
/// Limit of one probe, so that an unreachable worker does not hold up the others.
const LOOK: Duration = Duration::from_millis(400);
/// The number of leases probed together: the newest of those seen.
const AT_ONCE: usize = 12;

/// A row as it was bound on a branch.
#[derive(Clone)]
struct Bound {
    branch: u64,
    row: u64,
    released: ReleasedRows,
}

pub async fn compete(world: Arc<World>) -> turmoil::Result {
    // The name is part of the random stream: another one would change every recorded seed.
    let dice = Dice::named(world.seed, "rival");
    let connections = net::connections();
    let routes = Vec::new();
    let bound = BTreeMap::new();
    let mut adversary = Adversary { client: connect()?, connections, dice, world, routes, bound };
    while !adversary.world.is_done() {
        let case = *adversary.dice.pick(&adversary.world.cases.clone());
        match adversary.dice.below(4) {
            0 => drop(adversary.bind(case).await),
            1 => adversary.look(case).await,
            2 => adversary.ask_under_an_old_lease(case).await,
            _ => adversary.go_back_too(case).await,
        }
        adversary.ask_all(case).await;
        let pause = adversary.dice.millis(20, 400);
        sleep(pause).await;
    }
    Ok(())
}

struct Adversary {
    client: Client,
    connections: Connections,
    dice: Dice,
    world: Arc<World>,
    /// All routes that were ever seen.
    routes: Vec<(&'static Case, Route)>,
    /// The last bound row of each branch of a job.
    bound: BTreeMap<(JobId, u64), Bound>,
}

impl Adversary {
    /// Returns mostly the newest branch, sometimes an abandoned one.
    fn branch(&mut self, case: &Case) -> u64 {
        let newest = self.world.history().branches.newest(&case.job);
        if newest > 0 && self.dice.one_in(3) { self.dice.below(newest) } else { newest }
    }

    /// A row, bound to either of its commitments, and its token.
    async fn bind(&mut self, case: &'static Case) -> Option<Bound> {
        let job = &case.job;
        let row = self.dice.below(ROWS);
        let branch = self.branch(case);
        let is_rival = self.dice.one_in(2);
        for is_rival in [is_rival, !is_rival] {
            let rows = RowRange { start: row, end: row + 1 };
            let (commitments, newest) = {
                let mut history = self.world.history();
                let of_z = history.branches.of_row(job, branch, row);
                let commitments = [case.commitment(of_z, row, is_rival)];
                (commitments, history.asked(job, branch, rows, &commitments))
            };
            match timeout(CALL_TIMEOUT, self.client.bind(job, branch, rows, &commitments)).await {
                Ok(Ok(released)) => {
                    self.world.history().acked(job, branch, newest, row, commitments[0]);
                    let bound = Bound { branch, row, released };
                    self.bound.insert((job.clone(), branch), bound.clone());
                    return Some(bound);
                }
                Ok(Err(error)) if newest > branch => {
                    self.world.history().left_refused(job, branch, &error);
                    return None;
                }
                Ok(Err(ServiceError::AlreadyBound { .. })) => {
                    self.world.history().refused(job, branch, row, commitments[0]);
                }
                _ => return None,
            }
        }
        None
    }

    /// From a branch that was left, to any row: nothing comes of it. What was opened so before may be said again.
    async fn go_back_too(&mut self, case: &'static Case) {
        let job = &case.job;
        let row = self.dice.below(ROWS);
        let newest = self.world.history().branches.newest(job);
        if newest == 0 {
            return;
        }
        let expected = self.dice.below(newest);
        match timeout(CALL_TIMEOUT, self.client.jobs().rewind(job, row, expected)).await {
            Ok(Ok(opened)) => {
                let noise_id = NoiseId::try_from(&opened);
                let mut history = self.world.history();
                let known = history.branches.noise_id(job, newest);
                let is_known = noise_id
                    .as_ref()
                    .is_ok_and(|answer| known == Some(answer) && answer.lineage.from_row() == row);
                if !is_known || expected + 1 != newest {
                    history.violation(format!(
                        "{job} went back from branch {expected}, which was left: {noise_id:?}"
                    ));
                }
            }
            Ok(Err(error)) => self.world.history().left_refused(job, expected, &error),
            Err(_) => {}
        }
    }

    async fn look(&mut self, case: &'static Case) {
        let Ok(Ok(routing)) = timeout(CALL_TIMEOUT, self.client.routing(&case.job)).await else { return };
        for route in routing.routes {
            let Some(endpoint) = &route.endpoint else { continue };
            let lease = (case.job.clone(), route.shard, route.lease_epoch);
            self.world.history().routed(lease, endpoint);
            if !self.routes.iter().any(|(of, seen)| of.job == case.job && *seen == route) {
                self.routes.push((case, route));
            }
        }
    }

    /// A lease that was seen some time, or one beside it: who serves it must hold it.
    async fn ask_under_an_old_lease(&mut self, case: &'static Case) {
        let Some(bound) = self.bind(case).await else { return };
        let of_job: Vec<Route> =
            self.routes.iter().filter(|(of, _)| of.job == case.job).map(|(_, route)| route.clone()).collect();
        if of_job.is_empty() {
            return;
        }
        let mut route = self.dice.pick(&of_job).clone();
        route.lease_epoch = match self.dice.below(3) {
            0 => route.lease_epoch,
            1 => route.lease_epoch + 1,
            _ => route.lease_epoch.saturating_sub(1),
        };
        self.ask(case, route, bound).await;
    }

    /// Under the newest leases that were seen, for a row of any branch. Needs no coordinator, like any holder of a token.
    async fn ask_all(&mut self, case: &'static Case) {
        let of_job = self.bound.range((case.job.clone(), 0)..=(case.job.clone(), u64::MAX));
        let of_job: Vec<Bound> = of_job.map(|(_, bound)| bound.clone()).collect();
        if of_job.is_empty() {
            return;
        }
        let bound = self.dice.pick(&of_job).clone();
        let leases = self.routes.iter().rev().filter(|(of, _)| of.job == case.job);
        join_all(leases.take(AT_ONCE).map(|(_, route)| self.ask(case, route.clone(), bound.clone()))).await;
    }

    async fn ask(&self, case: &'static Case, route: Route, bound: Bound) {
        let asked = turmoil::sim_elapsed().unwrap_or_default();
        let branch = bound.branch;
        let row = bound.row;
        match timeout(LOOK, self.first_chunk(case, &route, bound)).await {
            Ok(Ok(Some(chunk))) => {
                let lease = (case.job.clone(), route.shard, route.lease_epoch);
                // One that was given since the last look is known then too.
                self.world.sample();
                let values: Vec<f32> =
                    chunk.data.as_chunks().0.iter().map(|four| f32::from_le_bytes(*four)).collect();
                let mut history = self.world.history();
                history.served(lease, branch, asked, LEASE_TTL + UNSEEN);
                history.check_values(&case.job, branch, row, chunk.start, &values);
            }
            Ok(Err(ServiceError::BranchSuperseded { current, .. })) => {
                let mut history = self.world.history();
                if current > branch {
                    history.tally.refused_by_workers += 1
                } else {
                    history.violation(format!("a worker refused branch {branch} for {current}"))
                }
            }
            _ => {}
        }
    }

    async fn first_chunk(
        &self,
        case: &Case,
        route: &Route,
        bound: Bound,
    ) -> proto::Result<Option<pb::Chunk>> {
        let Bound { branch, row, released } = bound;
        let request = pb::FetchSliceRequest {
            job: case.job.to_string(),
            branch,
            shard: route.shard,
            lease_epoch: route.lease_epoch,
            rows: Some(RowRange { start: row, end: row + 1 }.into()),
            range: Some(route.range.into()),
            token: Some(released.token(RowRange { start: row, end: row + 1 })?.into()),
            deadline_ms: 1000,
            element_type: proto::ElementType::F32.into(),
            region: Vec::new(),
            slot: 0,
        };
        let (Some(endpoint), Some(worker)) = (&route.endpoint, &route.worker) else {
            return Err(ServiceError::Unavailable { what: "a worker".into() });
        };
        let mut shards = self.connections.shards(endpoint, worker)?;
        Ok(shards.fetch_slice(request).await?.into_inner().message().await?)
    }
}
