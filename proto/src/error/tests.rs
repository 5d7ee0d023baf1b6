use prost::Message;
use tonic::{Status, metadata::MetadataValue};

use super::wire::TRAILER;
use super::*;
use crate::pb;

#[test]
fn errors_survive_the_wire() {
    let errors = [
        ServiceError::invalid("theta[0]", 1.5, "0 < theta ≤ 1"),
        ServiceError::AlreadyBound { job: "j".into(), branch: 0, row: 7 },
        ServiceError::range_unavailable("j", vec![CoordinateRange { start: 512, end: 1024 }], 250),
        ServiceError::Draining,
        ServiceError::NotLeader { leader: "http://127.0.0.1:7300".into() },
        ServiceError::Unauthenticated,
        ServiceError::PermissionDenied,
        ServiceError::RangeNotAllowed {
            asked: CoordinateRange { start: 0, end: 9 },
            allowed: vec![CoordinateRange { start: 0, end: 8 }],
        },
        ServiceError::Fenced { job: "j".into(), shard: 3, presented: 1, current: 2 },
    ];
    for error in errors {
        let status = Status::from(error.clone());
        assert_eq!(status.message(), error.to_string());
        assert_eq!(ServiceError::from(status), error);
    }
}

/// One error of every kind.
fn one_of_each() -> Vec<ServiceError> {
    use ServiceError::*;
    let text = String::new;
    let range = CoordinateRange { start: 0, end: 1 };
    vec![
        InvalidArgument { field: text(), value: text(), allowed: text() },
        GridRowsAreIntegers { job: text(), requested: text() },
        NotFound { what: text(), name: text() },
        AlreadyExists { what: text(), name: text(), difference: text() },
        PlanDigestMismatch { expected: text(), actual: text() },
        StreamVersionMismatch { expected: 1, actual: 2 },
        ProtocolVersionMismatch { expected: 1, actual: 2 },
        KeyMismatch { job: text(), expected: text(), actual: text() },
        RowBeyondIterations { row: 1, iterations: 1 },
        RangeBeyondDimension { start: 0, end: 2, dimension: 1 },
        BudgetExceeded(Box::new(shortfall("", ""))),
        ApprovalRequired { data_set: text(), change: text(), reason: text(), remedy: text() },
        AlreadyBound { job: text(), branch: 0, row: 0 },
        BranchSuperseded { job: text(), branch: 0, current: 1, from_row: 0 },
        LedgerBehind { job: text(), known: text(), witness: text(), seen: text() },
        LedgerCopied { ledger: text(), found: text(), witness: text() },
        CursorMismatch { what: text(), expected: text(), actual: text() },
        TokenExpired { job: text(), row: 0 },
        StaleEpoch { presented: 0, current: 1 },
        NotBound { job: text(), branch: 0, row: 0 },
        Fenced { job: text(), shard: 0, presented: 0, current: 1 },
        NotOwner { job: text(), shard: 0 },
        Restoring { job: text(), shard: 0 },
        RangeUnavailable { job: text(), missing: vec![range], more: 0, waited_ms: 0, reason: text() },
        JobState { job: text(), state: text(), allowed: text() },
        Checkpoint { object: text(), reason: text() },
        WrongRows { row: 0, coordinate: 0, made_by: text(), checked_by: text() },
        Draining,
        NotLeader { leader: text() },
        Unauthenticated,
        PermissionDenied,
        RangeNotAllowed { asked: range, allowed: vec![] },
        ResourceExhausted { what: text(), limit: text() },
        QuotaExceeded { what: text(), limit: text(), remedy: text(), retry_after_ms: None },
        MustRegister { worker: text(), reason: text() },
        Unavailable { what: text() },
        Store { reason: text() },
        Internal { reason: text() },
    ]
}

#[test]
fn the_kind_of_an_error_is_the_tag_of_its_json() {
    let errors = one_of_each();
    for error in &errors {
        let json = serde_json::to_value(error).unwrap();
        assert_eq!(json["kind"], error.kind());
    }
    let kinds: std::collections::BTreeSet<_> = errors.iter().map(ServiceError::kind).collect();
    // serde names all tags that it would accept: none is missing above.
    let unknown = serde_json::from_str::<ServiceError>(r#"{"kind":"?"}"#).unwrap_err().to_string();
    let expected = unknown.split('`').skip(3).step_by(2).collect();
    assert_eq!(kinds, expected);
}

#[test]
fn a_transport_failure_is_safe_to_retry_and_an_unknown_one_is_not() {
    assert!(ServiceError::from(Status::unavailable("connection refused")).retry_safe());
    assert!(!ServiceError::from(Status::data_loss("?")).retry_safe());
}

#[test]
fn an_error_of_a_newer_release_keeps_its_words_and_its_promise() {
    for retry_safe in [true, false] {
        let detail = pb::ErrorDetail {
            kind: "moon_is_full".into(),
            retry_safe,
            fields_json: r#"{"kind":"moon_is_full","phase":4}"#.into(),
        };
        let mut status = Status::failed_precondition("wait for a new moon");
        status.metadata_mut().insert_bin(TRAILER, MetadataValue::from_bytes(&detail.encode_to_vec()));
        let error = ServiceError::from(status);
        assert_eq!(error.retry_safe(), retry_safe);
        let text = error.to_string();
        assert!(text.contains("moon_is_full") && text.contains("wait for a new moon"), "{text}");
    }
}

#[test]
fn the_missing_range_is_named() {
    let missing = vec![CoordinateRange { start: 512, end: 1024 }];
    let error = ServiceError::range_unavailable("j", missing, 9);
    assert!(error.to_string().contains("512..1024"), "{error}");
    assert_eq!(error.kind(), "range_unavailable");
}

/// Otherwise a client would take the answer for a failure of the transport, and never see its text.
#[test]
fn long_lists_fit_in_the_headers_of_an_answer() {
    let range = |at: u64| CoordinateRange { start: u64::MAX / 2 + 3 * at, end: u64::MAX / 2 + 3 * at + 2 };
    let error = ServiceError::range_unavailable("j".repeat(128), (0..4096).rev().map(range).collect(), 9);
    assert!(error.to_string().contains("and 4064 ranges more"), "{error}");
    let headers = Status::from(error.clone()).into_http::<()>();
    let bytes: usize =
        headers.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + 32).sum();
    assert!(bytes < 12 << 10, "{bytes} bytes");
    let restored = Status::from_header_map(headers.headers()).map(ServiceError::from);
    assert_eq!(restored, Some(error));

    let side_by_side = (0..4096).map(|at| CoordinateRange { start: 512 * at, end: 512 * at + 512 });
    let error = ServiceError::range_unavailable("j", side_by_side.collect(), 9);
    assert!(error.to_string().contains("coordinates 0..2097152 of"), "{error}");
}

#[test]
fn a_copied_ledger_is_named_in_the_command_that_adopts_it() {
    let copied = |ledger: &str| {
        let [found, witness] = ["it is another file", "the ledger itself"].map(str::to_owned);
        ServiceError::LedgerCopied { ledger: ledger.to_owned(), found, witness }.to_string()
    };
    let error = copied("/my data/ledger.redb");
    assert!(error.contains("`rustle ledger adopt --file '/my data/ledger.redb'`"), "{error}");
    let error = copied("etcd://a:2379/rustle");
    assert!(error.contains("can't be adopted") && !error.contains("rustle ledger adopt"), "{error}");
}

fn shortfall(tenant: &str, block: &str) -> BudgetShortfall {
    let text = String::new;
    BudgetShortfall {
        data_set: "mails".to_owned(),
        tenant: tenant.to_owned(),
        block: block.to_owned(),
        delta: "1e-6".to_owned(),
        budget: text(),
        spent: text(),
        reserved: text(),
        left: text(),
        asked: text(),
        total: text(),
        fits: text(),
    }
}

#[test]
fn a_shortfall_names_the_command_that_raises_what_is_short() {
    let cases = [
        (shortfall("", ""), "(rustle budget grant mails --epsilon EPSILON --delta 1e-6)"),
        (shortfall("red", ""), "(rustle budget share mails --tenant red --epsilon EPSILON --delta 1e-6)"),
        (shortfall("", "nov"), "other blocks"),
    ];
    for (shortfall, command) in cases {
        assert!(shortfall.to_string().ends_with(command), "{shortfall}");
    }
}
