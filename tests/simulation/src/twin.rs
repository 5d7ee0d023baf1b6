//! A training job that runs on, with other gradients, over the coordinator of a copy: whatever that grants is noise that
//! the original may release too.

use std::sync::Arc;
use std::time::Duration;

use client::Client;
use dice::Dice;
use proto::{Commitment, NoiseId, RowRange};
use tokio::time::{sleep, timeout};

use crate::cases::{Case, ROWS};
use crate::site::Standing;
use crate::trainer::connect_to;
use crate::world::{COPY, World};

const CALL_TIMEOUT: Duration = Duration::from_secs(2);

pub async fn train_on_copies(world: Arc<World>) -> turmoil::Result {
    let dice = Dice::named(world.seed, "twin");
    let client = connect_to(world.site(COPY).host)?;
    let mut twin = Twin { client, dice, world };
    while !twin.world.is_mishap_over() {
        let pause = twin.dice.millis(10, 120);
        sleep(pause).await;
        if twin.world.is_copy_on() {
            let case = *twin.dice.pick(&twin.world.cases.clone());
            twin.train(case).await;
        }
    }
    Ok(())
}

struct Twin {
    client: Client,
    dice: Dice,
    world: Arc<World>,
}

impl Twin {
    async fn train(&mut self, case: &'static Case) {
        let standing = self.world.site(COPY).standing();
        let found = timeout(CALL_TIMEOUT, self.client.jobs().get(&case.job)).await;
        let Ok(Ok(Ok(noise_id))) = found.map(|found| found.map(|job| NoiseId::try_from(&job))) else {
            return;
        };
        match standing {
            Standing::Adopted if self.dice.one_in(8) => {
                let row = self.dice.below(ROWS);
                let jobs = self.client.jobs();
                let rewound = jobs.rewind(&case.job, row, noise_id.lineage.branch());
                let _answered = timeout(CALL_TIMEOUT, rewound).await;
            }
            Standing::Clone => self.bind_on_clone(case, &noise_id).await,
            _ => self.bind_on_copy(case, &noise_id, standing).await,
        }
    }

    /// A clone that may bind is the ledger: what it binds is bound.
    async fn bind_on_clone(&mut self, case: &'static Case, noise_id: &NoiseId) {
        let branch = noise_id.lineage.branch();
        let rows = self.row();
        let of_z = noise_id.lineage.branch_of(rows.start);
        let commitments = [case.commitment(of_z, rows.start, true)];
        let newest = self.world.history().asked(&case.job, branch, rows, &commitments);
        let bound = self.client.bind(&case.job, branch, rows, &commitments);
        if let Ok(Ok(_)) = timeout(CALL_TIMEOUT, bound).await {
            let mut history = self.world.history();
            history.acked(&case.job, branch, newest, rows.start, commitments[0]);
            history.tally.rows_bound_on_clones += 1;
        }
    }

    /// One that was adopted has noise of its own, and any other binds nothing.
    async fn bind_on_copy(&mut self, case: &'static Case, noise_id: &NoiseId, standing: Standing) {
        let branch = noise_id.lineage.branch();
        let rows = self.row();
        let commitment = Commitment::of_text(&format!("twin {} {branch} {}", case.job, rows.start));
        let commitments = [commitment];
        let bound = self.client.bind(&case.job, branch, rows, &commitments);
        let is_bound = matches!(timeout(CALL_TIMEOUT, bound).await, Ok(Ok(_)));
        // An answer to a request of before may be of either.
        if self.world.site(COPY).standing() != standing {
            return;
        }
        let mut history = self.world.history();
        match standing {
            Standing::Adopted if is_bound => {
                history.bound_on_copy(&case.job, noise_id, rows.start, commitment);
                history.tally.rows_bound_on_copies += 1;
            }
            Standing::Adopted => {}
            _ if is_bound => {
                history.violation(format!("{} row {} was bound on a copy", case.job, rows.start))
            }
            _ => history.tally.refused_by_copies += 1,
        }
    }

    fn row(&mut self) -> RowRange {
        let row = self.dice.below(ROWS);
        RowRange { start: row, end: row + 1 }
    }
}
