//! A second process of the same jobs, as after a restart that forgot its past: binds other gradients to the same rows,
//! and asks workers under leases that have ended.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use client::{Client, Connections, Route};
use dice::Dice;
use futures::future::join_all;
use proto::{JobId, ReleaseToken, RowRange, ServiceError, pb};
use tokio::time::{sleep, timeout};

use crate::cases::{Case, ROWS};
use crate::net;
use crate::run::UNSEEN;
use crate::trainer::connect;
use crate::world::{LEASE_TTL, World};

const PATIENCE: Duration = Duration::from_secs(3);
/// A worker that is not reached keeps nobody waiting who looks whether it serves.
const LOOK: Duration = Duration::from_millis(400);
/// Leases asked for together: of those seen, the newest.
const AT_ONCE: usize = 12;

pub async fn compete(world: Arc<World>) -> turmoil::Result {
    let dice = Dice::named(world.seed, "rival");
    let connections = net::connections();
    let (routes, tokens) = (Vec::new(), BTreeMap::new());
    let mut rival = Rival { client: connect()?, connections, dice, world, routes, tokens };
    while !rival.world.is_done() {
        let case = *rival.dice.pick(&rival.world.cases.clone());
        match rival.dice.below(3) {
            0 => drop(rival.bind(case).await),
            1 => rival.look(case).await,
            _ => rival.ask_under_an_old_lease(case).await,
        }
        rival.ask_all(case).await;
        let pause = rival.dice.millis(20, 400);
        sleep(pause).await;
    }
    Ok(())
}

struct Rival {
    client: Client,
    connections: Connections,
    dice: Dice,
    world: Arc<World>,
    /// All that were ever seen.
    routes: Vec<(&'static Case, Route)>,
    /// Of each job, the last row that was bound.
    tokens: BTreeMap<JobId, (u64, ReleaseToken)>,
}

impl Rival {
    /// A row, bound to either of its commitments, and its token.
    async fn bind(&mut self, case: &'static Case) -> Option<(u64, ReleaseToken)> {
        let row = self.dice.below(ROWS);
        let is_rival = self.dice.one_in(2);
        for is_rival in [is_rival, !is_rival] {
            let commitment = case.commitment(row, is_rival);
            let rows = RowRange { start: row, end: row + 1 };
            let commitments = [commitment];
            let asked = self.client.bind(&case.job, 0, rows, &commitments);
            match timeout(PATIENCE, asked).await {
                Ok(Ok(tokens)) => {
                    self.world.history().acked(&case.job, row, commitment);
                    let bound = (row, tokens.into_iter().next()?);
                    self.tokens.insert(case.job.clone(), bound);
                    return Some(bound);
                }
                Ok(Err(ServiceError::AlreadyBound { .. })) => {
                    self.world.history().refused(&case.job, row, commitment);
                }
                _ => return None,
            }
        }
        None
    }

    async fn look(&mut self, case: &'static Case) {
        let Ok(Ok(routing)) = timeout(PATIENCE, self.client.routing(&case.job)).await else { return };
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
        let Some((row, token)) = self.bind(case).await else { return };
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
        self.ask(case, route, row, token).await;
    }

    /// Under the newest leases that were seen. Needs no coordinator, as whoever kept a token.
    async fn ask_all(&self, case: &'static Case) {
        let Some((row, token)) = self.tokens.get(&case.job) else { return };
        let of_job = self.routes.iter().rev().filter(|(of, _)| of.job == case.job);
        let asks = of_job.take(AT_ONCE).map(|(_, route)| self.ask(case, route.clone(), *row, *token));
        join_all(asks).await;
    }

    async fn ask(&self, case: &'static Case, route: Route, row: u64, token: ReleaseToken) {
        let asked = turmoil::sim_elapsed().unwrap_or_default();
        if let Ok(true) = timeout(LOOK, self.is_served(case, &route, row, token)).await {
            let lease = (case.job.clone(), route.shard, route.lease_epoch);
            // One that was given since the last look is known then too.
            self.world.sample();
            self.world.history().served(lease, asked, LEASE_TTL + UNSEEN);
        }
    }

    async fn is_served(&self, case: &Case, route: &Route, row: u64, token: ReleaseToken) -> bool {
        let request = pb::FetchSliceRequest {
            job: case.job.to_string(),
            branch: 0,
            shard: route.shard,
            lease_epoch: route.lease_epoch,
            rows: Some(RowRange { start: row, end: row + 1 }.into()),
            range: Some(route.range.into()),
            tokens: vec![token.to_bytes()],
            deadline_ms: 1000,
            element_type: proto::ElementType::F32.into(),
            region: Vec::new(),
            slot: 0,
        };
        let endpoint = route.endpoint.as_deref().unwrap_or_default();
        let Ok(mut shards) = self.connections.shards(endpoint) else { return false };
        let Ok(answer) = shards.fetch_slice(request).await else { return false };
        matches!(answer.into_inner().message().await, Ok(Some(_)))
    }
}
