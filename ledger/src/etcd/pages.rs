//! How much of the log a new leader asks for at once: what the network carries in time isn't known beforehand.

use std::time::{Duration, Instant};

use super::wire::Failure;
use crate::Result;

/// An answer that comes in this part of its time leaves room for one of twice the size.
const ROOM: u32 = 4;

/// Size of the next page. It is halved after each request without an answer, down to one record, and doubled after an
/// answer that came soon.
pub struct Pages {
    records: i64,
    most: i64,
    limit: Duration,
}

impl Pages {
    /// `limit`: how long a request may take.
    pub fn new(most: i64, limit: Duration) -> Self {
        Self { records: most, most, limit }
    }

    /// Calls `ask` with the records of a page until there is an answer, or until `may_ask` says no. An error inside:
    /// why etcd refused.
    pub async fn read<T>(
        &mut self,
        may_ask: impl Fn() -> Result<()>,
        between: Duration,
        ask: impl AsyncFn(i64) -> Result<T, Failure>,
    ) -> Result<Result<T, String>> {
        loop {
            may_ask()?;
            let asked = Instant::now();
            match ask(self.records).await {
                Ok(answer) => {
                    self.answered(asked.elapsed());
                    return Ok(Ok(answer));
                }
                Err(Failure::Refused(reason)) => return Ok(Err(reason)),
                Err(Failure::Open(reason)) => self.shrink(&reason),
            }
            tokio::time::sleep(between).await;
        }
    }

    fn answered(&mut self, took: Duration) {
        if took < self.limit / ROOM {
            self.records = self.records.saturating_mul(2).min(self.most);
        }
    }

    fn shrink(&mut self, reason: &str) {
        self.records = (self.records / 2).max(1);
        tracing::warn!(
            reason,
            records = self.records,
            "etcd gave no answer to a read of the log; asking for fewer"
        );
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, path::PathBuf};

    use super::*;
    use crate::LedgerError;

    /// No wait at all: no answer comes soon.
    const NEVER_SOON: Duration = Duration::ZERO;
    const ALWAYS_SOON: Duration = Duration::from_secs(3600);

    fn run<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime").block_on(work)
    }

    /// Reads so many pages over a network that carries `carries` records in time. Gives the sizes asked for; gives up
    /// after twenty requests.
    fn sizes(mut pages: Pages, carries: i64, count: usize) -> Result<Vec<i64>> {
        let asked = RefCell::new(Vec::new());
        let gone = || LedgerError::NotLeader { path: PathBuf::new() };
        let may_ask = || (asked.borrow().len() < 20).then_some(()).ok_or_else(gone);
        let ask = async |records| {
            asked.borrow_mut().push(records);
            (records <= carries).then_some(()).ok_or_else(|| Failure::Open("no answer within 0 s".to_owned()))
        };
        for _ in 0..count {
            let answer = run(pages.read(may_ask, Duration::ZERO, ask))?;
            assert_eq!(answer, Ok(()));
        }
        Ok(asked.into_inner())
    }

    #[test]
    fn a_page_that_does_not_come_is_asked_for_in_smaller_ones() {
        let sizes = |most, carries, count| sizes(Pages::new(most, NEVER_SOON), carries, count).ok();
        assert_eq!(sizes(256, 256, 2), Some(vec![256, 256]));
        assert_eq!(sizes(256, 20, 2), Some(vec![256, 128, 64, 32, 16, 16]));
        assert_eq!(sizes(5, 1, 3), Some(vec![5, 2, 1, 1, 1]));
        // Where nothing comes at all, it goes on as long as it may.
        assert_eq!(sizes(256, 0, 1), None);
    }

    #[test]
    fn pages_grow_again_where_answers_come_soon() {
        let sizes = sizes(Pages::new(9, ALWAYS_SOON), 4, 3).ok();
        assert_eq!(sizes, Some(vec![9, 4, 8, 4, 8, 4]));
        let mut pages = Pages { records: 3, ..Pages::new(9, ALWAYS_SOON) };
        pages.answered(ALWAYS_SOON / 2);
        assert_eq!(pages.records, 3);
        pages.answered(Duration::from_secs(1));
        pages.answered(Duration::from_secs(1));
        assert_eq!(pages.records, 9);
    }

    #[test]
    fn what_etcd_refuses_is_not_asked_again() {
        let mut pages = Pages::new(8, ALWAYS_SOON);
        let ask = async |_| Err::<(), _>(Failure::Refused("no".to_owned()));
        let answer = run(pages.read(|| Ok(()), Duration::ZERO, ask)).expect("it may ask");
        assert_eq!(answer, Err("no".to_owned()));
    }
}
