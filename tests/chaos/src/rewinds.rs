//! A job goes back while processes are killed: the rows from there on are fresh, those before are as they were, and what
//! was left is known.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::Context;
use dice::Dice;
use proto::{Commitment, JobId, NoiseId, Result, ServiceError, pb};
use serde_json::json;

use crate::{
    Session,
    calls::{bind, fetch, in_time},
    cases::Case,
    history::Violation,
    nemesis::Nemesis,
};

/// A call that is not answered by then has not come back.
const TIMEOUT: Duration = Duration::from_secs(60);
const AGAIN: Duration = Duration::from_millis(50);
const DELTA: f64 = 1e-6;

/// A job's progress before its rewind.
struct FormerRun {
    case: Case,
    /// Of its branch 0.
    noise_id: NoiseId,
    /// Rows fetched, and rows that were bound and never fetched.
    fetched: u64,
    bound: u64,
    /// First row that comes anew.
    back_to: u64,
}

fn commitment(when: &str, row: u64) -> Commitment {
    Commitment::of_text(&format!("{when} {row}"))
}

/// The call's answer, however often it takes. Refusals that a retry does not heal are answers.
pub async fn answered<T>(mut call: impl AsyncFnMut() -> Result<T>) -> Result<T> {
    let began = Instant::now();
    loop {
        match call().await {
            Err(error) if error.retry_safe() && began.elapsed() < TIMEOUT => tokio::time::sleep(AGAIN).await,
            outcome => return outcome,
        }
    }
}

impl Nemesis<'_> {
    /// A job of its own: trained, killed, back to an earlier row, trained with other batches.
    pub fn rewind(&mut self, turn: u64, dice: &mut Dice) -> anyhow::Result<String> {
        let case = Case::named(&format!("back-{turn}"), dice.below(4) as usize)?;
        let fetched = dice.within(2, 8);
        let bound = fetched + dice.below(3);
        let back_to = dice.below(fetched + 1);
        let session = self.session;
        let runtime = self.runtime.clone();
        let created = runtime
            .block_on(answered(async || in_time(session.client.jobs().create(case.request.clone())).await));
        let created = created.context("creating it")?;
        let noise_id = NoiseId::try_from(&created)?;
        let before = FormerRun { case: case.created(&created)?, noise_id, fetched, bound, back_to };
        runtime.block_on(train(session, &before, dice)).context("before it goes back")?;

        let killed = self.kill_around(&before, dice)?;
        let opened = runtime.block_on(answered(async || {
            in_time(session.client.jobs().rewind(&before.case.job, before.back_to, 0)).await
        }));
        let opened = opened.context("going back")?;
        if opened.branch != 1 {
            let text = format!("{}: asked twice, branch {} was opened", before.case.job, opened.branch);
            session.history.violation(Violation::Doubled, text);
        }
        let noise_id = opened_noise(session, &before, &opened)?;
        runtime.block_on(train_anew(session, &before, &noise_id)).context("after it went back")?;
        let FormerRun { back_to, bound, .. } = before;
        Ok(format!("a job of {bound} rows rewound to {back_to}, {killed}"))
    }

    /// Someone, before, while or after the job asks to go back.
    fn kill_around(&mut self, before: &FormerRun, dice: &mut Dice) -> anyhow::Result<String> {
        let client = self.session.client.clone();
        let job = before.case.job.clone();
        let back_to = before.back_to;
        let asking = self.runtime.spawn(async move { in_time(client.jobs().rewind(&job, back_to, 0)).await });
        if dice.one_in(4) {
            asking.abort();
        }
        sleep(Duration::from_micros(dice.below(12_000)));
        let worker = dice.below(self.cluster.workers as u64) as usize;
        let killed = match dice.below(3) {
            0 => {
                self.cluster.kill_coordinator();
                "coordinator killed".to_owned()
            }
            1 => {
                self.cluster.kill_worker(worker);
                format!("worker {worker} killed")
            }
            _ => {
                self.cluster.kill_all();
                "all killed".to_owned()
            }
        };
        // Its answer is lost with its caller.
        asking.abort();
        self.cluster.mend()?;
        Ok(killed)
    }
}

async fn train(session: &Session, before: &FormerRun, dice: &mut Dice) -> anyhow::Result<()> {
    let FormerRun { case, fetched, bound, .. } = before;
    let job = &case.job;
    let saved = dice.below(*fetched);
    for row in 0..*bound {
        let of = commitment("before", row);
        answered(async || bind(session, job, 0, row, of).await).await?;
        if row < *fetched {
            let values = answered(async || fetch(session, job, 0, row, of).await).await?;
            expect_row(session, job, row, &values, &case.rows[row as usize]);
        }
        if row == saved && dice.one_in(2) {
            // One that fails is no concern here: the row's state is then made from the key.
            let _ = in_time(session.client.jobs().checkpoint(job)).await;
        }
    }
    Ok(())
}

/// Returns the noise of the branch that was opened: it has the rows before the rewind from branch 0, and all else from
/// a nonce of its own.
fn opened_noise(session: &Session, before: &FormerRun, opened: &pb::Job) -> anyhow::Result<NoiseId> {
    let noise_id = NoiseId::try_from(opened)?;
    let own = noise_id.lineage.segments().last().context("a lineage has a segment")?.nonce;
    let lineage = before.noise_id.lineage.rewound(before.back_to, 1, own);
    let expected = NoiseId { lineage, ..before.noise_id.clone() };
    if noise_id != expected || own == before.noise_id.job_nonce {
        let text = format!(
            "{}: the noise was {}, and is {noise_id} since the rewind",
            before.case.job, before.noise_id
        );
        session.history.violation(Violation::Different, text);
    }
    Ok(noise_id)
}

async fn train_anew(session: &Session, before: &FormerRun, noise_id: &NoiseId) -> anyhow::Result<()> {
    let &FormerRun { ref case, fetched, bound, back_to, .. } = before;
    let job = &case.job;
    let end = bound + 2;
    let expected = case.rows_of(noise_id, 0..end)?;
    for row in back_to..end {
        let of = commitment("after", row);
        answered(async || bind(session, job, 1, row, of).await).await?;
        let values = answered(async || fetch(session, job, 1, row, of).await).await?;
        expect_row(session, job, row, &values, &expected[row as usize]);
        let old = &case.rows[row as usize];
        expect_other(session, job, row, &values, old);
    }
    for row in 0..back_to.min(fetched) {
        let values = answered(async || fetch(session, job, 1, row, commitment("before", row)).await).await?;
        expect_row(session, job, row, &values, &case.rows[row as usize]);
    }
    for row in [0, back_to.saturating_sub(1), back_to, end - 1] {
        let taken = answered(async || bind(session, job, 1, row, commitment("thief", row)).await).await;
        expect_refused(session, job, row, taken.map(|_| ()), |error| {
            matches!(error, ServiceError::AlreadyBound { .. })
        });
        let of = commitment("before", row.min(bound - 1));
        let left = answered(async || bind(session, job, 0, row.min(bound - 1), of).await).await;
        expect_refused(session, job, row, left.map(|_| ()), |error| {
            matches!(error, ServiceError::BranchSuperseded { .. })
        });
    }
    expect_report(session, before, end).await?;
    answered(async || in_time(session.client.jobs().destroy(job)).await).await?;
    Ok(())
}

/// Checks that a row has not the values of another one.
pub fn expect_other(session: &Session, job: &JobId, row: u64, values: &[f32], old: &[f32]) {
    let same = values.iter().zip(old).filter(|(new, old)| new == old).count();
    if same > old.len() / 100 {
        let text = format!("{job} row {row}: {same} of {} values came again", old.len());
        session.history.violation(Violation::Doubled, text);
    }
}

pub fn expect_row(session: &Session, job: &JobId, row: u64, values: &[f32], expected: &[f32]) {
    if values.iter().zip(expected).any(|(a, b)| a.to_bits() != b.to_bits()) {
        session.history.violation(Violation::Different, format!("{job} row {row} differs from the oracle"));
    }
}

pub fn expect_refused(
    session: &Session,
    job: &JobId,
    row: u64,
    outcome: Result<()>,
    is_meant: impl Fn(&ServiceError) -> bool,
) {
    match outcome {
        Err(error) if is_meant(&error) => {}
        Err(error) => session.history.violation(Violation::Stuck, format!("{job} row {row}: {error}")),
        Ok(()) => {
            session.history.violation(Violation::Lost, format!("{job} row {row} accepted another commitment"))
        }
    }
}

/// Checks that the report has every abandoned row and every row since.
async fn expect_report(session: &Session, before: &FormerRun, end: u64) -> anyhow::Result<()> {
    let job = &before.case.job;
    let report = answered(async || in_time(session.client.jobs().report(job, DELTA)).await).await?;
    let report: serde_json::Value = serde_json::from_str(&report)?;
    let back_to = before.back_to;
    let bound = before.bound;
    let expected = json!({ "branches": [
        { "branch": 0, "parent": null, "from_row": 0, "released": [[0, bound]] },
        { "branch": 1, "parent": 0, "from_row": back_to, "released": [[back_to, end]] },
    ]});
    if report["released"] != expected {
        let text = format!("{job}: reported {}, released {expected}", report["released"]);
        session.history.violation(Violation::Lost, text);
    }
    Ok(())
}
