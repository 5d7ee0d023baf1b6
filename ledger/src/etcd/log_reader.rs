//! The size of the log's pages, as a new leader reads them: what the network carries in time isn't known beforehand.

use std::time::{Duration, Instant};

use super::client::CallError;
use crate::Result;

/// An answer within this part (a quarter) of the limit leaves room for one of twice the size.
const FAST_PART: u32 = 4;

/// Reads pages whose size adapts: it is halved after each request without an answer, down to one record, and doubled
/// after a fast answer.
pub struct LogReader {
    records: i64,
    most: i64,
    limit: Duration,
}

impl LogReader {
    /// Begins with pages of `most` records. `limit` is how long a request may take.
    pub fn new(most: i64, limit: Duration) -> Self {
        Self { records: most, most, limit }
    }

    /// Calls `request` with the number of records of a page until there is an answer, or until `may_continue` fails.
    /// The inner error is the reason why etcd refused.
    pub async fn read<T>(
        &mut self,
        may_continue: impl Fn() -> Result<()>,
        between: Duration,
        request: impl AsyncFn(i64) -> Result<T, CallError>,
    ) -> Result<Result<T, String>> {
        loop {
            may_continue()?;
            let requested = Instant::now();
            match request(self.records).await {
                Ok(answer) => {
                    self.answered(requested.elapsed());
                    return Ok(Ok(answer));
                }
                Err(CallError::Refused(reason)) => return Ok(Err(reason)),
                Err(CallError::Unknown(reason)) => self.shrink(&reason),
            }
            tokio::time::sleep(between).await;
        }
    }

    fn answered(&mut self, took: Duration) {
        if took < self.limit / FAST_PART {
            self.records = self.records.saturating_mul(2).min(self.most);
        }
    }

    fn shrink(&mut self, reason: &str) {
        self.records = (self.records / 2).max(1);
        tracing::warn!(
            reason,
            records = self.records,
            "etcd did not answer a read of the log; requesting fewer records"
        );
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, path::PathBuf};

    use super::*;
    use crate::LedgerError;

    /// No limit at all: no answer is fast.
    const NEVER_FAST: Duration = Duration::ZERO;
    const ALWAYS_FAST: Duration = Duration::from_secs(3600);

    fn run<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime").block_on(work)
    }

    /// Reads `count` pages over a network that carries `carries` records in time, and returns the sizes requested.
    /// Fails after twenty requests.
    fn sizes(mut reader: LogReader, carries: i64, count: usize) -> Result<Vec<i64>> {
        let asked = RefCell::new(Vec::new());
        let gone = || LedgerError::NotLeader { path: PathBuf::new() };
        let may_continue = || (asked.borrow().len() < 20).then_some(()).ok_or_else(gone);
        let request = async |records| {
            asked.borrow_mut().push(records);
            (records <= carries)
                .then_some(())
                .ok_or_else(|| CallError::Unknown("no answer within 0 s".to_owned()))
        };
        for _ in 0..count {
            let answer = run(reader.read(may_continue, Duration::ZERO, request))?;
            assert_eq!(answer, Ok(()));
        }
        Ok(asked.into_inner())
    }

    #[test]
    fn a_page_that_does_not_come_is_asked_for_in_smaller_ones() {
        let sizes = |most, carries, count| sizes(LogReader::new(most, NEVER_FAST), carries, count).ok();
        assert_eq!(sizes(256, 256, 2), Some(vec![256, 256]));
        assert_eq!(sizes(256, 20, 2), Some(vec![256, 128, 64, 32, 16, 16]));
        assert_eq!(sizes(5, 1, 3), Some(vec![5, 2, 1, 1, 1]));
        // Where no answer comes at all, it continues as long as it may.
        assert_eq!(sizes(256, 0, 1), None);
    }

    #[test]
    fn pages_grow_again_where_answers_come_soon() {
        let sizes = sizes(LogReader::new(9, ALWAYS_FAST), 4, 3).ok();
        assert_eq!(sizes, Some(vec![9, 4, 8, 4, 8, 4]));
        let mut reader = LogReader { records: 3, ..LogReader::new(9, ALWAYS_FAST) };
        reader.answered(ALWAYS_FAST / 2);
        assert_eq!(reader.records, 3);
        reader.answered(Duration::from_secs(1));
        reader.answered(Duration::from_secs(1));
        assert_eq!(reader.records, 9);
    }

    #[test]
    fn what_etcd_refuses_is_not_asked_again() {
        let mut reader = LogReader::new(8, ALWAYS_FAST);
        let request = async |_| Err::<(), _>(CallError::Refused("no".to_owned()));
        let answer = run(reader.read(|| Ok(()), Duration::ZERO, request)).expect("it may ask");
        assert_eq!(answer, Err("no".to_owned()));
    }
}
