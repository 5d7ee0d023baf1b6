use super::*;

const NONCE: Nonce = Nonce::from_bytes([5; 32]);
const VALIDITY: Validity = Validity { epoch: 3, until_ms: 1_000, extent: None };
const BOUND: RowRange = RowRange { start: 4, end: 9 };
const ROWS: RowRange = RowRange { start: 6, end: 8 };

fn job() -> JobId {
    JobId::new("a").unwrap()
}

fn of(job: &JobId) -> GrantedBranch<'_> {
    GrantedBranch { job, nonce: &NONCE, branch: 1 }
}

fn commitments() -> Vec<Commitment> {
    BOUND.as_range().map(|row| Commitment::of_text(&format!("step {row}"))).collect()
}

fn released(key: &CoordinatorKey, validity: Validity) -> ReleasedRows {
    key.release(of(&job()), BOUND, commitments(), validity)
}

fn over_the_wire(token: &ReleaseToken) -> ReleaseToken {
    pb::ReleaseToken::from(token.clone()).try_into().unwrap()
}

#[test]
fn a_token_is_good_for_its_own_rows_alone() {
    let key = CoordinatorKey::new(&[1; 32]);
    let public = key.public();
    let token = over_the_wire(&released(&key, VALIDITY).token(ROWS).unwrap());
    assert_eq!(token.commitments, commitments()[2..4]);
    assert_eq!(token.verify(&public, of(&job()), ROWS), Ok(()));
    for rows in [(5, 7), (7, 9), (6, 7), (6, 9), (0, 2), (60, 62)] {
        let rows = RowRange { start: rows.0, end: rows.1 };
        assert_eq!(token.verify(&public, of(&job()), rows), Err(not_bound(of(&job()), rows)), "{rows}");
    }
    let other = JobId::new("b").unwrap();
    let elsewhere = Nonce::from_bytes([6; 32]);
    for of in [
        of(&other),
        GrantedBranch { branch: 0, ..of(&job()) },
        GrantedBranch { nonce: &elsewhere, ..of(&job()) },
    ] {
        assert!(token.verify(&public, of, ROWS).is_err(), "{of:?}");
    }
    assert!(token.verify(&CoordinatorKey::new(&[2; 32]).public(), of(&job()), ROWS).is_err());
}

#[test]
fn nothing_of_a_token_can_be_exchanged() {
    let key = CoordinatorKey::new(&[1; 32]);
    let token = released(&key, VALIDITY).token(ROWS).unwrap();
    let grant = token.grant;
    let of_grant = |grant: ReleaseGrant| ReleaseToken { grant, ..token.clone() };
    let wider = RowRange { end: BOUND.end + 1, ..BOUND };
    let [one, two] = [token.commitments[0], token.commitments[1]];
    let of_commitments = |commitments| ReleaseToken { commitments, ..token.clone() };
    let elsewhere = released(&key, VALIDITY).token(RowRange { start: 4, end: 6 }).unwrap();
    let forged = [
        of_commitments(vec![two, one]),
        of_commitments(vec![one, one]),
        of_commitments(vec![one]),
        of_commitments(vec![Commitment::exact(one.digest), two]),
        of_grant(ReleaseGrant { validity: Validity { epoch: 4, ..VALIDITY }, ..grant }),
        of_grant(ReleaseGrant { validity: Validity { until_ms: 1_001, ..VALIDITY }, ..grant }),
        of_grant(ReleaseGrant { rows: ROWS, ..grant }),
        of_grant(ReleaseGrant { rows: wider, ..grant }),
        ReleaseToken { path: elsewhere.path, ..token.clone() },
        ReleaseToken { path: vec![], ..token.clone() },
        ReleaseToken { path: [token.path.clone(), vec![[0; 32]]].concat(), ..token.clone() },
    ];
    for (at, token) in forged.iter().enumerate() {
        assert!(token.verify(&key.public(), of(&job()), ROWS).is_err(), "{at}: {token:?}");
    }
}

/// All that a worker is ever sent, and all that it can do with it.
#[test]
fn whoever_has_the_public_key_and_others_tokens_signs_nothing() {
    let key = CoordinatorKey::new(&[1; 32]);
    let seen = released(&key, VALIDITY);
    let by_worker = CoordinatorKey::new(key.public().as_bytes());
    let unbound = RowRange { start: 50, end: 51 };
    let row = [Commitment::of_text("mine")];
    let own = *by_worker.release(of(&job()), unbound, row.to_vec(), VALIDITY).grant();
    let with_a_seen_signature = ReleaseGrant { signature: *seen.grant().signature(), ..own };
    for grant in [own, with_a_seen_signature, ReleaseGrant { signature: [0; 64], ..own }] {
        let forged = ReleasedRows::new(grant, row.to_vec()).unwrap().token(unbound).unwrap();
        assert_eq!(forged.verify(&key.public(), of(&job()), unbound).unwrap_err().kind(), "not_bound");
    }
}

#[test]
fn a_grant_of_an_extent_can_be_made_no_wider() {
    let key = CoordinatorKey::new(&[1; 32]);
    let extent = CoordinateRange { start: 512, end: 1024 };
    let validity = Validity { extent: Some(extent), ..VALIDITY };
    let token = over_the_wire(&released(&key, validity).token(BOUND).unwrap());
    assert_eq!((token.grant.validity, token.path.len()), (validity, 0));
    assert_eq!(token.verify(&key.public(), of(&job()), BOUND), Ok(()));
    let with = |token: &ReleaseToken, extent| {
        let grant = ReleaseGrant { validity: Validity { extent, ..VALIDITY }, ..token.grant };
        ReleaseToken { grant, ..token.clone() }
    };
    for wider in [None, Some(CoordinateRange { end: 1025, ..extent })] {
        assert!(with(&token, wider).verify(&key.public(), of(&job()), BOUND).is_err(), "{wider:?}");
    }
    let for_all = released(&key, VALIDITY).token(BOUND).unwrap();
    let narrower = with(&for_all, Some(extent));
    assert!(narrower.verify(&key.public(), of(&job()), BOUND).is_err(), "only the coordinator narrows");
    let bytes = token.grant.to_bytes();
    for length in 0..bytes.len() {
        let cut = ReleaseGrant::try_from(&bytes[..length]);
        assert_eq!(cut.is_ok(), length == ReleaseGrant::BYTES, "{length}");
        let Ok(grant) = cut else { continue };
        let token = ReleaseToken { grant, ..token.clone() };
        assert!(token.verify(&key.public(), of(&job()), BOUND).is_err(), "{length}");
    }
}

#[test]
fn what_is_too_long_is_refused_before_it_is_hashed() {
    let key = CoordinatorKey::new(&[1; 32]);
    let token = released(&key, VALIDITY).token(ROWS).unwrap();
    let rows = RowRange { start: 0, end: MAX_ROWS + 1 };
    let long = ReleaseGrant { rows, ..token.grant }.to_bytes();
    assert_eq!(ReleaseGrant::try_from(long.as_slice()).unwrap_err().kind(), "invalid_argument");
    let message = pb::ReleaseToken::from(token);
    let paths = [vec![vec![0; 32]; MAX_PATH + 1], vec![vec![0; 31]]];
    for path in paths {
        let refused = ReleaseToken::try_from(pb::ReleaseToken { path, ..message.clone() }).unwrap_err();
        assert!(refused.to_string().contains("token.path"), "{refused}");
    }
    assert!(ReleasedRows::new(released(&key, VALIDITY).grant().to_owned(), vec![]).is_err());
    assert!(released(&key, VALIDITY).token(RowRange { start: 3, end: 5 }).is_err());
}
