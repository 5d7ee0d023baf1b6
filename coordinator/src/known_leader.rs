//! What a coordinator that stands by knows of the leader: the last answer of the election, for the time of a leader's lease. After
//! that another one may lead, or none.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// What is known of the leader. Clones share it.
#[derive(Clone, Debug)]
pub struct KnownLeader {
    lease: Duration,
    last: Arc<Mutex<LastAnswer>>,
}

#[derive(Debug, Default)]
struct LastAnswer {
    leader: String,
    /// The time of the answer; `None` while this coordinator itself has the leader's lease, and reads the ledger.
    at: Option<Instant>,
    /// Why no answer has come since.
    trouble: Option<String>,
}

/// What is known of the leader at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaderView {
    /// The leader by an answer that is not older than a lease; empty where none led.
    Known {
        /// The leader's URL.
        leader: String,
        /// Why no answer has come since; `None` where the last attempt had one.
        trouble: Option<String>,
    },
    /// The election gave no answer for the time of a lease.
    Unknown {
        /// The leader by the last answer; empty where none led.
        last: String,
        /// The time of that answer.
        since: Instant,
        /// Why no answer has come since.
        reason: String,
    },
}

impl KnownLeader {
    /// Creates it for leases of this length; none is known to lead.
    pub fn new(lease: Duration) -> Self {
        let known = Self { lease, last: Arc::default() };
        known.set("");
        known
    }

    /// Notes an answer of the election: the leader's URL, empty where none leads.
    pub fn set(&self, leader: &str) {
        *self.last() = LastAnswer { leader: leader.to_owned(), at: Some(Instant::now()), trouble: None };
    }

    /// Notes that this coordinator was elected, and does not serve yet.
    pub fn elected(&self) {
        *self.last() = LastAnswer::default();
    }

    /// Notes why the election gave no answer.
    pub fn unanswered(&self, reason: String) {
        self.last().trouble = Some(reason);
    }

    /// Returns what is known now.
    pub fn view(&self) -> LeaderView {
        let LastAnswer { leader, at, trouble } = &*self.last();
        match at.filter(|at| at.elapsed() > self.lease) {
            None => LeaderView::Known { leader: leader.clone(), trouble: trouble.clone() },
            Some(since) => LeaderView::Unknown {
                last: leader.clone(),
                since,
                reason: trouble.clone().unwrap_or_else(|| "the ledger's store does not answer".to_owned()),
            },
        }
    }

    fn last(&self) -> MutexGuard<'_, LastAnswer> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LeaderView {
    /// Returns the leader's URL; empty where none is known.
    pub fn leader(&self) -> &str {
        match self {
            Self::Known { leader, .. } => leader,
            Self::Unknown { .. } => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const LEASE: Duration = Duration::from_secs(5);
    const A_BIT: Duration = Duration::from_millis(1);

    #[tokio::test(start_paused = true)]
    async fn an_answer_counts_for_the_time_of_a_lease() {
        let known = KnownLeader::new(LEASE);
        known.set("http://a:7300");
        let answered = Instant::now();
        advance(LEASE).await;
        known.unanswered("etcd is silent".to_owned());
        let trouble = Some("etcd is silent".to_owned());
        assert_eq!(known.view(), LeaderView::Known { leader: "http://a:7300".to_owned(), trouble });
        advance(A_BIT).await;
        let view = known.view();
        let LeaderView::Unknown { last, since, reason } = &view else { panic!("{view:?}") };
        assert_eq!((&**last, *since, &**reason), ("http://a:7300", answered, "etcd is silent"));
        assert_eq!(view.leader(), "", "another one may lead by now");
        known.set("http://b:7300");
        assert_eq!(known.view(), LeaderView::Known { leader: "http://b:7300".to_owned(), trouble: None });
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_that_has_not_ended_hides_nothing_and_reading_the_ledger_is_no_silence() {
        let known = KnownLeader::new(LEASE);
        advance(LEASE + A_BIT).await;
        assert!(matches!(known.view(), LeaderView::Unknown { .. }), "no attempt has failed yet");
        known.elected();
        advance(LEASE * 100).await;
        assert_eq!(known.view(), LeaderView::Known { leader: String::new(), trouble: None });
    }
}
