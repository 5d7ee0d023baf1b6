//! The health of a coordinator that stands by: good only while another one is known to lead.

use serde_json::{Value, json};
use tokio::time::Instant;

use super::fields;
use super::problem::{Problem, Severity, wall_time};
use crate::known_leader::LeaderView;

/// Returns the problems of a coordinator that does not lead: none while another one does.
pub fn problems_standing_by(view: &LeaderView) -> Vec<Problem> {
    match view {
        LeaderView::Known { leader, .. } if leader.is_empty() => vec![no_leader()],
        LeaderView::Known { .. } => Vec::new(),
        LeaderView::Unknown { last, since, reason } => vec![leader_unknown(last, *since, reason)],
    }
}

/// Returns the status of a coordinator that does not lead.
pub fn status_standing_by(view: &LeaderView) -> Value {
    let mut status = fields(&problems_standing_by(view));
    status["standing_by"] = json!(true);
    status["leader"] = json!(view.leader());
    status["leader_unknown_since"] = match view {
        LeaderView::Known { .. } => Value::Null,
        LeaderView::Unknown { since, .. } => json!(wall_time(Instant::now(), *since)),
    };
    status["jobs"] = json!([]);
    status["workers"] = json!([]);
    status
}

/// Returns why a coordinator that does not lead is not ready.
pub fn obstacle(view: &LeaderView) -> String {
    match view {
        LeaderView::Unknown { since, reason, .. } => {
            let since = wall_time(Instant::now(), *since);
            format!("standing by; the leader is unknown since {since}: {reason}")
        }
        LeaderView::Known { leader, trouble } => {
            let state = match leader.as_str() {
                "" => "standing by; there is no leader".to_owned(),
                leader => format!("standing by; {leader} leads"),
            };
            match trouble {
                Some(reason) => format!("{state}, by the last answer of the election: {reason}"),
                None => state,
            }
        }
    }
}

fn no_leader() -> Problem {
    let what = "no coordinator leads: nothing is bound, and no worker gets a lease".to_owned();
    let next_step = "see that etcd is reached and that a coordinator runs; an election takes seconds";
    Problem::new(Severity::Critical, "no_leader", what, next_step)
}

/// Critical: where etcd is silent for every coordinator none leads, and where it is so for this one, it can't take over.
fn leader_unknown(last: &str, since: Instant, reason: &str) -> Problem {
    let then = match last {
        "" => "none led then".to_owned(),
        last => format!("{last} led then"),
    };
    let at = wall_time(Instant::now(), since);
    let what = format!(
        "this coordinator stands by and does not know who leads since {at} ({then}), and can't take over: {reason}"
    );
    let next_step = "see that this coordinator reaches etcd (--store) and that a majority of etcd's members runs; rustle status \
                     --coordinator with the other coordinators' URLs shows whether one leads";
    Problem::new(Severity::Critical, "leader_unknown", what, next_step).began(since)
}
