//! Jobs as they train: bind a row, fetch it, compare every byte. Two of them compete for the same rows.

use std::{sync::Arc, time::Duration};

use dice::Dice;
use proto::{Commitment, ReleasedRows, Result, ServiceError};
use tokio::time::{sleep, timeout};

use crate::{
    Session,
    calls::{self, CALL_TIMEOUT},
    cases::{Case, ROWS},
    history::Violation,
};

/// Between two rows.
const PAUSE: Duration = Duration::from_millis(60);
const AGAIN: Duration = Duration::from_millis(50);

pub fn commitment(who: &str, case: &Case, row: u64) -> Commitment {
    Commitment::of_text(&format!("{who} {} {row}", case.job))
}

/// Trains one job after the other until the session is over.
pub async fn train(session: Arc<Session>, who: &'static str, mut dice: Dice) {
    for number in 0.. {
        let Some(case) = begin(&session, number).await else { return };
        for row in 0..ROWS {
            if session.is_over() {
                return;
            }
            step(&session, &case, row, who).await;
            if dice.one_in(8) {
                again(&session, &mut dice).await;
            }
            sleep(PAUSE).await;
        }
    }
}

/// The session's job of this number, made by the first trainer to need it. The oldest makes room.
async fn begin(session: &Arc<Session>, number: usize) -> Option<Arc<Case>> {
    loop {
        if session.is_over() {
            return None;
        }
        if let Some(case) = session.cases.get(number) {
            return Some(case);
        }
        let case = match Case::new(number) {
            Ok(case) => create(session, case).await?,
            Err(error) => Err(error),
        };
        let Ok(case) = case else {
            session.history.violation(Violation::Stuck, "a case can't be made");
            return None;
        };
        if session.cases.len() == number {
            if let Some(old) = session.cases.outdated() {
                let _ = timeout(CALL_TIMEOUT, session.client.jobs().destroy(&old.job)).await;
            }
            session.cases.add(case);
        }
    }
}

/// Creates the job and computes its rows. `None` where the session is over before.
async fn create(session: &Session, case: Case) -> Option<anyhow::Result<Case>> {
    // The same definition twice is the same job, with the nonce that it has, so that a rival may do this too.
    loop {
        let answer = timeout(CALL_TIMEOUT, session.client.jobs().create(case.request.clone())).await;
        if let Ok(Ok(created)) = answer {
            let computed = tokio::task::spawn_blocking(move || case.created(&created)).await;
            return Some(computed.unwrap_or_else(|error| Err(error.into())));
        }
        if session.is_over() {
            return None;
        }
        sleep(AGAIN).await;
    }
}

/// Binds the row, and fetches it where it is ours. Without an answer it is not known whether the row is bound: the
/// same commitment is sent again until that is known.
async fn step(session: &Session, case: &Case, row: u64, who: &str) {
    let commitment = commitment(who, case, row);
    while !session.is_over() {
        match bind(session, case, row, commitment).await {
            Ok(released) => {
                session.history.acked(&case.job, row, commitment, released);
                if fetch(session, case, row, commitment).await {
                    return;
                }
            }
            Err(ServiceError::AlreadyBound { .. }) => {
                return session.history.refused(&case.job, row, commitment);
            }
            // The rival is ahead by more jobs than are kept.
            Err(ServiceError::JobState { .. }) => return,
            Err(_) => {}
        }
        sleep(AGAIN).await;
    }
}

/// A row that was bound before comes again, in the same bytes.
async fn again(session: &Session, dice: &mut Dice) {
    let open = session.cases.lasting();
    let case = &open[dice.below(open.len() as u64) as usize];
    let rows = session.history.acked_rows(&case.job);
    if let Some((row, acked)) = rows.get(dice.below(rows.len().max(1) as u64) as usize) {
        fetch(session, case, *row, acked.commitment).await;
    }
}

pub async fn bind(session: &Session, case: &Case, row: u64, commitment: Commitment) -> Result<ReleasedRows> {
    calls::bind(session, &case.job, 0, row, commitment).await
}

/// Fetches a whole row and compares it with the oracle. Returns whether it was delivered.
pub async fn fetch(session: &Session, case: &Case, row: u64, commitment: Commitment) -> bool {
    let fetched = calls::fetch(session, &case.job, 0, row, commitment).await;
    fetched.is_ok_and(|out| {
        session.history.delivered(&case.job, row, &out, &case.rows[row as usize]);
        true
    })
}
