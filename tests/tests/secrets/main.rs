//! Tests that no secret leaks: a cluster with known secrets runs at trace level, and everything it writes is searched for
//! them.

// Clippy's exemption for tests does not reach helpers of integration tests.
#![allow(clippy::unwrap_used)]

mod derived;
mod dumps;
mod looking;
mod watched;

use std::fs;

use watched::{WatchedCluster, key};

#[test]
fn secrets_are_nowhere_but_where_they_belong() {
    let mut watched = WatchedCluster::start();
    watched.run();
    assert_eq!(watched.errors.len(), 4);
    // Logs really are at trace level, and spans really are sent.
    let log = watched.log_of_coordinator();
    assert!(log.contains("TRACE") && log.contains("h2"));
    watched.wait_for_spans();
    watched.look();
    assert!(watched.scan.bytes > 100_000, "{} bytes are too few to say anything", watched.scan.bytes);
    assert_eq!(watched.scan.hits, Vec::<String>::new());

    // Panics say where they are, and what was at hand: at a worker that holds state, and within the ledger.
    watched.panic_at_the_coordinator();
    for (process, point) in
        [("coordinator", "ledger::open_branch::before_commit"), ("worker", "checkpoint::piece::begin")]
    {
        let text = watched.panic_text(process, point);
        assert!(text.contains("stack backtrace"), "{process}:\n{text}");
    }
    watched.look_at_files();
    println!("{} bytes searched, {} hits", watched.scan.bytes, watched.scan.hits.len());
    assert_eq!(watched.scan.hits, Vec::<String>::new());

    // The search can find: the same with leaks, in a log and in what is sent to a collector.
    let planted = watched.dir.path().join("coordinator").join("planted.log");
    fs::write(&planted, format!("INFO key={}", hex::encode(&key()[5..13]))).unwrap();
    watched.send_planted_span();
    watched.look_at_files();
    watched.look_at_spans();
    let hits = &watched.scan.hits;
    for place in ["planted.log", "sent to a collector"] {
        assert!(hits.iter().any(|hit| hit.contains(place)), "the leak planted in {place} was not found");
    }
    let is_planted = |hit: &String| hit.contains("planted.log") || hit.contains("sent to a collector");
    assert!(hits.iter().all(is_planted), "{hits:?}");
}

/// Whether the values that are searched for are those that a cluster works with: what a checkpoint holds beneath its
/// seal is found, and not a window of it is where the seal is.
#[test]
fn sealed_checkpoints_hold_nothing_and_opened_ones_all_that_is_searched_for() {
    let mut watched = WatchedCluster::start();
    watched.run();
    let pieces = watched.pieces();
    assert_eq!(pieces.len(), 2, "one a shard: {pieces:?}");
    for piece in &pieces {
        let sealed = fs::read(piece).unwrap();
        watched.scan.look("sealed", &sealed);
        assert_eq!(watched.scan.hits, Vec::<String>::new());
        let (state, window) = watched.opened(piece, &sealed);
        assert!(!state.is_empty() && !window.is_empty());
        for (what, values) in [("state", &state), ("row", &window)] {
            watched.scan.look("opened", &values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>());
            let found = std::mem::take(&mut watched.scan.hits);
            // All but the seams between slots and rows, where one value's neighbour is of another secret.
            let expected = values.windows(2).filter(|pair| !pair.contains(&0.0)).count();
            println!("{} of {expected} windows of the {what} found in {}", found.len(), piece.display());
            assert!(found.iter().all(|hit| hit.contains(what)), "{what}: {:?}", found[0]);
            assert!(found.len() * 100 >= expected * 95, "{what}: {} of {expected}", found.len());
        }
    }
}
