//! Tokens with coordinate ranges: at the coordinator, at a worker over gRPC, and at a worker over shared memory.

use std::{ops::Range, slice, time::Duration};

use client::FetchRequest;
use proto::{Commitment, CoordinateRange, ElementType, ReleasedRows, RowRange, ServiceError, pb};
use tests::{assert_same_bits, job};
use tokio::time::Instant;

use crate::tokens::TokenCluster;

/// The range of the token `part`.
const PART: Range<u64> = 0..512;
/// Ranges that reach beyond it.
const BEYOND: [Range<u64>; 3] = [0..513, 512..600, 0..2_000];

fn range(range: Range<u64>) -> CoordinateRange {
    CoordinateRange { start: range.start, end: range.end }
}

fn not_allowed(asked: Range<u64>, allowed: &[Range<u64>]) -> ServiceError {
    let allowed = allowed.iter().cloned().map(range).collect();
    ServiceError::RangeNotAllowed { asked: range(asked), allowed }
}

/// Fetches through the coordinator, whose release tokens are good for all of a row.
fn fetch_proxied(tokens: &TokenCluster, token: &str, range: Range<u64>) -> Result<(), ServiceError> {
    let request = pb::FetchRequest {
        job: "own".into(),
        branch: 0,
        rows: Some(pb::RowRange { start: 0, end: 1 }),
        range: Some(pb::CoordinateRange { start: range.start, end: range.end }),
        commitments: vec![Commitment::of_text("step 0").to_bytes().to_vec()],
        deadline_ms: 10_000,
        element_type: pb::ElementType::F32.into(),
    };
    tokens.cluster.runtime.block_on(async {
        let mut noise = tokens.connections(Some(token)).noise(&tokens.cluster.cluster.url()).unwrap();
        let mut chunks = noise.fetch(request).await.map_err(ServiceError::from)?.into_inner();
        while chunks.message().await.map_err(ServiceError::from)?.is_some() {}
        Ok(())
    })
}

#[test]
fn a_token_of_ranges_fetches_those_alone_through_the_coordinator() {
    let tokens = TokenCluster::start(|_| {});
    tokens.create("own");
    fetch_proxied(&tokens, "part", PART).unwrap();
    for beyond in BEYOND {
        let refused = fetch_proxied(&tokens, "part", beyond.clone());
        assert_eq!(refused, Err(not_allowed(beyond.clone(), slice::from_ref(&PART))), "{beyond:?}");
    }
    fetch_proxied(&tokens, "own", 0..2_000).unwrap();
}

/// Binds row 0 without fetching it. Without `asked` it is bound for the token's only range.
fn bind(tokens: &TokenCluster, token: &str, asked: Option<Range<u64>>) -> Result<ReleasedRows, ServiceError> {
    let rows = RowRange { start: 0, end: 1 };
    let commitments = [Commitment::of_text("step 0")];
    let client = tokens.client(Some(token));
    tokens.cluster.runtime.block_on(client.bind_for(&job("own"), 0, rows, asked.map(range), &commitments))
}

/// Fetches row 0 straight from the worker with release tokens from an earlier binding.
fn fetch_bound(
    tokens: &TokenCluster,
    release: &ReleasedRows,
    asked: Range<u64>,
    is_lent: bool,
) -> Result<Vec<f32>, ServiceError> {
    let client = tokens.client(Some("part"));
    let request = FetchRequest {
        job: job("own"),
        branch: 0,
        rows: RowRange { start: 0, end: 1 },
        range: range(asked.clone()),
        commitments: vec![Commitment::of_text("step 0")],
        deadline: Instant::now() + Duration::from_secs(20),
    };
    let release = release.clone();
    tokens.cluster.runtime.block_on(async {
        if is_lent {
            let mut region = client.lend(range(asked), 1, ElementType::F32)?;
            client.fetch(request).of_released(release).into_region(&mut region, 0).await?;
            return Ok(region.row(0)?.to_vec());
        }
        let mut out = vec![f32::NAN; (asked.end - asked.start) as usize];
        client.fetch(request).of_released(release).into_slice(&mut out).await.map(|()| out)
    })
}

/// The coordinator refuses a range before it binds anything; a worker enforces the range signed in the release token.
#[test]
fn a_token_of_ranges_reaches_no_further_at_the_workers() {
    for is_local in [false, true] {
        let tokens = TokenCluster::start(|options| {
            options.unix = is_local;
            options.shared_memory = is_local;
        });
        tokens.create("own");
        assert_refusals_bind_nothing(&tokens);

        let row = &tokens.expected();
        assert_same_bits(&tokens.fetch("part", PART).unwrap(), &[row[..512].to_vec()]);
        assert_same_bits(&tokens.fetch("two", 600..700).unwrap(), &[row[600..700].to_vec()]);
        let release = bind(&tokens, "part", None).unwrap();
        for is_lent in [false, true] {
            let part = fetch_bound(&tokens, &release, 100..512, is_lent).unwrap();
            assert_same_bits(&[part], &[row[100..512].to_vec()]);
            for beyond in BEYOND {
                let refused = fetch_bound(&tokens, &release, beyond.clone(), is_lent);
                assert_eq!(refused, Err(not_allowed(beyond, slice::from_ref(&PART))), "lent: {is_lent}");
            }
        }
        assert_same_bits(&tokens.fetch("own", 0..2_000).unwrap(), slice::from_ref(row));
    }
}

fn assert_refusals_bind_nothing(tokens: &TokenCluster) {
    for beyond in BEYOND {
        let refused = tokens.fetch("part", beyond.clone());
        assert_eq!(refused, Err(not_allowed(beyond, slice::from_ref(&PART))));
    }
    let both = [PART, 600..700];
    // Without a range in the request, a token of two is ambiguous.
    assert_eq!(bind(tokens, "two", None), Err(not_allowed(0..u64::MAX, &both)));
    assert_eq!(tokens.fetch("two", 500..601), Err(not_allowed(500..601, &both)));
    let entries = tokens.cluster.runtime.block_on(tokens.client(Some("own")).jobs().entries(&job("own")));
    let bound = entries.unwrap().iter().filter(|entry| entry.event.contains("bound")).count();
    assert_eq!(bound, 0, "a refusal has bound the row");
}
