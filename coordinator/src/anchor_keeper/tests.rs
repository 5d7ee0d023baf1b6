//! Two processes on copies of one ledger, and what must raise no alarm. Each process is a keeper on an open file; the anchor
//! beside the file, which a clone of the volume takes along, is left out.

use std::fs;
use std::path::{Path, PathBuf};

use ledger::{AnchorPlace, Draws, JobState};
use plan::Plan;
use proto::JobId;
use tempfile::TempDir;

use super::*;

const ID: Nonce = Nonce::from_bytes([1; 32]);
const LEASE_TIME: Duration = Duration::from_secs(10);
const PLAN: &str = r#"
format = 1
stream_version = 3
iterations = 8
noise_multiplier = 1.0
clip_norm = 1.0
[participation]
min_sep = 4
max_participations = 2
[mechanism]
name = "identity"
"#;

struct Site {
    folder: TempDir,
}

impl Site {
    fn new() -> Self {
        let site = Self { folder: TempDir::new().unwrap() };
        Ledger::init(&site.path("original"), ID).unwrap();
        site
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Copies an open or a closed ledger's file.
    fn copy(&self, from: &str, to: &str) {
        fs::write(self.path(to), Ledger::backup(&self.path(from)).unwrap()).unwrap();
    }

    fn start_over(&self, file: &str, store: &str, lease_time: Duration) -> AnchorKeeper {
        let url = format!("file://{}", self.path(store).display());
        let store = CheckpointStore::open(&url).unwrap();
        AnchorKeeper::new(Ledger::open(&self.path(file)).unwrap(), store, url, lease_time).unwrap()
    }

    fn start(&self, file: &str) -> AnchorKeeper {
        self.start_over(file, "store", LEASE_TIME)
    }

    /// Starts a process that must take the anchor up.
    async fn taken_up(&self, file: &str) -> AnchorKeeper {
        let mut keeper = self.start(file);
        keeper.take_up().await.unwrap();
        keeper
    }
}

/// Changes the ledger, as binding would.
fn change(keeper: &AnchorKeeper, name: &str) -> Result<(), LedgerError> {
    let plan = Plan::from_toml_str(PLAN).unwrap();
    let job = JobId::new(name).unwrap();
    let defined = release::job::define(job, &plan, PLAN.to_owned(), 1_000, [7; 32], 1, ID).unwrap();
    keeper.ledger.create_job(&defined.record, &defined.shards).map(drop)
}

#[track_caller]
fn assert_copied(keeper: &AnchorKeeper, why: &str) {
    let Some(LedgerError::Copied { found, witness, .. }) = keeper.ledger.copied() else {
        panic!("it was not found: {why}")
    };
    assert!(found.contains(why) && witness == keeper.url, "{found}, says {witness}");
    assert!(matches!(change(keeper, "refused"), Err(LedgerError::Copied { .. })));
}

#[track_caller]
fn assert_binds(keeper: &AnchorKeeper, name: &str) {
    assert!(keeper.ledger.copied().is_none(), "{:?}", keeper.ledger.copied());
    change(keeper, name).unwrap();
}

/// Lets one process take the anchor up while another one renews it.
async fn taken_up_beside(taking: &mut AnchorKeeper, renewing: &mut AnchorKeeper) -> Result<(), Trouble> {
    let renewing = async {
        loop {
            tokio::time::sleep(LEASE_TIME / LEASE).await;
            renewing.renew().await.unwrap();
        }
    };
    tokio::select! {
        taken = taking.take_up() => taken,
        () = renewing => unreachable!("it renews for ever"),
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_on_copies_the_one_that_renews_goes_on() {
    let site = Site::new();
    let mut original = site.taken_up("original").await;
    assert_binds(&original, "a");
    original.renew().await.unwrap();
    site.copy("original", "clone");
    let mut clone = site.start("clone");
    assert!(change(&clone, "early").is_err(), "nothing is bound before the anchor is taken up");
    let taken = taken_up_beside(&mut clone, &mut original).await;
    assert!(matches!(taken, Err(Trouble::OtherHolder)), "{taken:?}");
    assert!(clone.ledger.copied().is_none(), "the two are the same so far");
    assert!(change(&clone, "early").is_err(), "nothing is bound while the other one renews");
    assert_binds(&original, "b");
    let taken = taken_up_beside(&mut clone, &mut original).await;
    assert!(matches!(taken, Err(Trouble::Copied)), "{taken:?}");
    assert_copied(&clone, "has seen 2 entries of its chains, and it has 1");
}

#[tokio::test(start_paused = true)]
async fn one_that_was_silent_for_a_lease_finds_that_a_copy_goes_on() {
    let site = Site::new();
    let mut original = site.taken_up("original").await;
    site.copy("original", "clone");
    let clone = site.taken_up("clone").await;
    assert_binds(&clone, "a");
    assert!(matches!(original.renew().await, Err(Trouble::Copied)));
    assert_copied(&original, "names another opening");
}

#[tokio::test(start_paused = true)]
async fn of_two_that_take_up_at_once_one_goes_on() {
    let site = Site::new();
    let mut first = site.taken_up("original").await;
    first.part().await.unwrap();
    drop(first);
    site.copy("original", "clone");
    let mut both = [site.start("original"), site.start("clone")];
    let [one, other] = &mut both;
    let _ = tokio::join!(one.take_up(), other.take_up());
    for keeper in &mut both {
        let _ = keeper.renew().await;
    }
    let changed = both.iter().filter(|keeper| change(keeper, "a").is_ok()).count();
    assert_eq!(changed, 1);
}

#[tokio::test(start_paused = true)]
async fn an_older_copy_is_found_by_opening_and_by_height() {
    let site = Site::new();
    site.copy("original", "never-taken-up");
    let mut original = site.taken_up("original").await;
    site.copy("original", "shorter");
    assert_binds(&original, "a");
    original.part().await.unwrap();
    drop(original);
    site.copy("original", "before");
    let mut original = site.taken_up("original").await;
    original.part().await.unwrap();
    for copy in ["never-taken-up", "before", "shorter"] {
        let mut old = site.start(copy);
        assert!(matches!(old.take_up().await, Err(Trouble::Copied)), "{copy}");
        assert_copied(&old, "names another opening");
    }
    // Within one opening it is found by the height, and by nothing else.
    drop(original);
    let mut original = site.taken_up("original").await;
    site.copy("original", "within");
    assert_binds(&original, "b");
    original.part().await.unwrap();
    let mut old = site.start("within");
    assert!(matches!(old.take_up().await, Err(Trouble::Copied)));
    assert_copied(&old, "has seen 2 entries of its chains, and it has 1");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_answer_raises_no_alarm_and_lets_nothing_be_bound_beyond_the_lease() {
    let site = Site::new();
    let mut keeper = site.taken_up("original").await;
    let hidden = site.path("hidden");
    fs::rename(site.path("store"), &hidden).unwrap();
    let answered = keeper.renew().await;
    assert!(matches!(answered, Err(Trouble::ForNow(_))), "{answered:?}");
    assert_binds(&keeper, "a");
    tokio::time::advance(LEASE_TIME - LEASE_TIME / MARGIN - Duration::from_secs(1)).await;
    assert_binds(&keeper, "within");
    tokio::time::advance(Duration::from_secs(1)).await;
    let refused = change(&keeper, "b").unwrap_err();
    assert!(matches!(refused, LedgerError::Unanchored { .. }), "{refused}");
    let refused = proto::ServiceError::from(refused);
    assert!(refused.kind() == "unavailable" && refused.retry_safe(), "{refused}");
    fs::rename(&hidden, site.path("store")).unwrap();
    keeper.renew().await.unwrap();
    assert_binds(&keeper, "b");

    // At the start too.
    drop(keeper);
    fs::rename(site.path("store"), &hidden).unwrap();
    let mut keeper = site.start("original");
    fs::remove_dir(site.path("store")).unwrap();
    keeper.attempt(&CancellationToken::new()).await.unwrap_err();
    assert!(keeper.ledger.anchor_trouble().is_some_and(|trouble| !trouble.is_leased));
    assert!(matches!(change(&keeper, "c"), Err(LedgerError::Unanchored { .. })));
    fs::rename(&hidden, site.path("store")).unwrap();
    keeper.attempt(&CancellationToken::new()).await.unwrap();
    assert_binds(&keeper, "c");
    assert!(keeper.ledger.anchor_trouble().is_none());
}

#[tokio::test(start_paused = true)]
async fn ordinary_operations_raise_no_alarm_and_wait_for_a_store_without_the_anchor_alone() {
    let site = Site::new();
    let began = tokio::time::Instant::now();
    // Killed, and started again; ended in order; the folder under another name.
    drop(site.taken_up("original").await);
    let mut keeper = site.taken_up("original").await;
    assert_binds(&keeper, "a");
    keeper.part().await.unwrap();
    drop(keeper);
    fs::rename(site.path("original"), site.path("moved")).unwrap();
    drop(site.taken_up("moved").await);
    // Another store in between, whose lack of an anchor may be a loss, and none.
    let mut elsewhere = site.start_over("moved", "store-2", LEASE_TIME);
    elsewhere.take_up().await.unwrap();
    assert_binds(&elsewhere, "b");
    drop(elsewhere);
    let ledger = Ledger::open(&site.path("moved")).unwrap();
    ledger.set_job_state(&JobId::new("b").unwrap(), JobState::Finished).unwrap();
    drop(ledger);
    let mut keeper = site.taken_up("moved").await;
    // A store that is emptied, while it runs and while it does not.
    let anchor = site.path(&format!("store/ledger-{ID}.anchor"));
    fs::remove_file(&anchor).unwrap();
    keeper.renew().await.unwrap();
    assert_binds(&keeper, "c");
    drop(keeper);
    assert_eq!(began.elapsed().as_secs(), LEASE_TIME.as_secs(), "for the other store");
    fs::remove_file(&anchor).unwrap();
    drop(site.taken_up("moved").await);
    assert_eq!(began.elapsed().as_secs(), 2 * LEASE_TIME.as_secs(), "for the anchor that was gone");
    // Ends between the writes of a taking up.
    for notes in [false, true] {
        let mut keeper = site.start("moved");
        let found = keeper.read().await.unwrap().unwrap();
        let draws = Draws { place: ID, opening: nonce().unwrap(), written: nonce().unwrap() };
        let announced = keeper.ledger.announcement(Some(&found.anchor), draws, LEASE_TIME).unwrap();
        keeper.write(&announced, Some(&found.version)).await.unwrap().unwrap();
        if notes {
            keeper.ledger.note_opening(&announced).unwrap();
        }
        drop(keeper);
        keeper = site.taken_up("moved").await;
        assert_binds(&keeper, if notes { "d" } else { "e" });
    }
    assert_eq!(began.elapsed().as_secs(), 2 * LEASE_TIME.as_secs(), "a process has waited");
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_was_adopted_has_an_anchor_of_its_own() {
    let site = Site::new();
    let mut original = site.taken_up("original").await;
    site.copy("original", "copy");
    let place = |path: &Path| AnchorPlace::of_ledger(path);
    let ledger = Ledger::open(&site.path("copy")).unwrap();
    ledger
        .take_over(&place(&site.path("copy")), Nonce::from_bytes([2; 32]), Nonce::from_bytes([3; 32]))
        .unwrap();
    drop(ledger);
    let adopted = site.taken_up("copy").await;
    assert_binds(&adopted, "a");
    original.renew().await.unwrap();
    assert_binds(&original, "a");
}

mod watching;
