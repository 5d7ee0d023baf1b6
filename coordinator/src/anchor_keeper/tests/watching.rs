//! Anchors that go while a process holds them, writes whose answer was lost, and the end in order.

use super::*;

fn anchor_of(site: &Site) -> PathBuf {
    site.path(&format!("store/ledger-{ID}.anchor"))
}

#[tokio::test(start_paused = true)]
async fn an_anchor_that_goes_is_watched_like_one_that_is_there() {
    let site = Site::new();
    let mut original = site.taken_up("original").await;
    site.copy("original", "clone");
    fs::remove_file(anchor_of(&site)).unwrap();
    let mut clone = site.start("clone");
    let taken = taken_up_beside(&mut clone, &mut original).await;
    assert!(matches!(taken, Err(Trouble::OtherHolder)), "{taken:?}");
    assert!(change(&clone, "refused").is_err());
    assert_binds(&original, "a");
    // While it is watched, too.
    let began = tokio::time::Instant::now();
    site.copy("original", "clone-2");
    let mut clone = site.start("clone-2");
    let removed = async {
        tokio::time::sleep(LEASE_TIME - Duration::from_secs(1)).await;
        fs::remove_file(anchor_of(&site)).unwrap();
    };
    let ended = tokio::join!(clone.take_up(), removed);
    assert!(began.elapsed() >= 2 * LEASE_TIME, "it was not watched once more");
    ended.0.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_process_whose_anchor_went_binds_nothing_once_another_one_has_written_it_first() {
    let site = Site::new();
    let mut original = site.taken_up("original").await;
    site.copy("original", "clone");
    fs::remove_file(anchor_of(&site)).unwrap();
    let clone = site.taken_up("clone").await;
    assert_binds(&clone, "a");
    let anchor = original.held.as_ref().unwrap().anchor.clone();
    assert!(original.create_again(&anchor).await.unwrap().is_none());
    assert!(matches!(change(&original, "b"), Err(LedgerError::Unanchored { .. })));
    assert!(matches!(original.renew().await, Err(Trouble::Copied)));
}

/// A copy may have been taken up before the anchor was lost.
#[tokio::test(start_paused = true)]
async fn a_process_whose_lease_is_over_watches_an_anchor_that_is_gone() {
    let site = Site::new();
    let mut original = site.taken_up("original").await;
    site.copy("original", "clone");
    let mut clone = site.taken_up("clone").await;
    fs::remove_file(anchor_of(&site)).unwrap();
    let answered = original.renew().await;
    assert!(matches!(answered, Err(Trouble::Gone)), "{answered:?}");
    assert!(matches!(change(&original, "a"), Err(LedgerError::Unanchored { .. })));
    assert_binds(&clone, "a");
    let taken = taken_up_beside(&mut original, &mut clone).await;
    assert!(matches!(taken, Err(Trouble::Copied)), "{taken:?}");
    assert_copied(&original, "names another opening");
}

/// Others watch from that attempt on.
#[tokio::test(start_paused = true)]
async fn a_lease_counts_from_the_first_attempt_of_a_write_that_got_through() {
    let site = Site::new();
    let mut keeper = site.taken_up("original").await;
    for (name, ago, is_leased) in [("a", LEASE_TIME, false), ("b", Duration::ZERO, true)] {
        let held = keeper.held.clone().unwrap();
        let next = keeper.next(&held.anchor).await.unwrap();
        keeper.write(&next, Some(&held.version)).await.unwrap().unwrap();
        // As if the answer had been lost.
        let tried = now().checked_sub(ago).unwrap();
        keeper.held = Some(Held { pending: Some((next, tried)), ..held });
        keeper.renew().await.unwrap();
        assert_eq!(change(&keeper, name).is_ok(), is_leased, "tried {ago:?} ago");
    }
}

#[tokio::test(start_paused = true)]
async fn bytes_that_are_no_anchor_prove_nothing() {
    let site = Site::new();
    let mut keeper = site.taken_up("original").await;
    fs::write(anchor_of(&site), "{").unwrap();
    let answered = keeper.renew().await;
    assert!(
        matches!(&answered, Err(Trouble::ForNow(reason)) if reason.contains("no anchor")),
        "{answered:?}"
    );
    assert_binds(&keeper, "a");
}

/// A keeper whose renewal was dropped while it read the ledger, and not in its write, which another thread may have come to.
async fn ended_as_it_reads_the_ledger() -> (Site, AnchorKeeper) {
    loop {
        let site = Site::new();
        let mut keeper = site.taken_up("original").await;
        let mut renewing = Box::pin(keeper.renew());
        assert!(futures::poll!(&mut renewing).is_pending());
        drop(renewing);
        if keeper.held.as_ref().is_some_and(|held| held.pending.is_none()) {
            return (site, keeper);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_end_during_a_renewal_is_in_order() {
    let (site, mut keeper) = ended_as_it_reads_the_ledger().await;
    // And before its write got through.
    let held = keeper.held.clone().unwrap();
    let next = keeper.next(&held.anchor).await.unwrap();
    keeper.held = Some(Held { pending: Some((next, now())), ..held });
    keeper.part().await.unwrap();
    let began = tokio::time::Instant::now();
    site.copy("original", "moved");
    drop(site.taken_up("moved").await);
    assert_eq!(began.elapsed(), Duration::ZERO, "the next one waits");
}
