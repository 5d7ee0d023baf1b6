//! What happens to the ledger's file: it is copied, cloned, deleted, an old copy is put back, a copy is adopted, two
//! coordinators run on two copies. And to the store of its anchors, which fails, answers late, or loses the anchor.
//!
//! Not drawn is what the guarantees except (docs/guarantees.md, "What can't be found"): a clone of a volume that has all that
//! the anchor elsewhere has seen, while the original binds more.

use std::time::Duration;

use dice::Dice;

use crate::anchors::Answers;
use crate::world::{COPY, ORIGINAL};

/// How long a coordinator may bind without an answer of the store, with a second to spare.
const LEASE_AND_MORE: Duration = Duration::from_millis(6000);
/// How long a coordinator watches an anchor that another one may hold.
const WATCH: Duration = Duration::from_millis(5000);

/// How long a coordinator waits at its start for what workers report, before it binds.
const GRACE: Duration = Duration::from_millis(4000);

/// One change.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// The bytes of the ledger's file are taken as they are.
    Copy,
    /// A coordinator is started on that copy on another host, with the anchor beside the file or without.
    StartCopy { with_anchor: bool },
    /// That copy is adopted, and started again.
    Adopt,
    /// An old copy in place of the ledger: written into its file, or as another one.
    PutBackOld { into_file: bool },
    /// The ledger's file is deleted.
    Delete,
    /// The ledger as it was before one of these two.
    PutBackCurrent,
    /// The volume is cloned while the original runs, and the clone started once the anchor elsewhere has seen more than it.
    StartClone,
    /// The volume is cloned while the original has no lease, and the clone started.
    StartCloneOfFenced,
    /// The original is ended, and the clone's volume attached to its host.
    MoveVolume,
    /// The copy's or clone's host ends for good.
    StopCopy,
    /// The store of anchors answers a coordinator like this from now on.
    Answer { site: usize, answers: Answers },
    /// The store loses the anchor.
    Lose,
    /// Nothing more comes.
    End,
}

/// What happens in one seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mishap {
    CopiedFile,
    OldPutBack,
    Deleted,
    LiveClone,
    FencedClone,
}

impl Mishap {
    /// Draws the seed's: none in one of three.
    pub fn of(seed: u64) -> Option<Self> {
        let mut dice = Dice::named(seed, "mishap");
        let all = [Self::CopiedFile, Self::OldPutBack, Self::Deleted, Self::LiveClone, Self::FencedClone];
        (!dice.one_in(3)).then(|| *dice.pick(&all))
    }

    /// Returns whether it needs the store of anchors, and nothing else amiss with that.
    pub fn needs_anchors(self) -> bool {
        matches!(self, Self::LiveClone | Self::FencedClone)
    }

    /// Returns whether requests for the original may find a ledger that is known as a copy.
    pub fn stops_original(self) -> bool {
        matches!(self, Self::OldPutBack | Self::FencedClone)
    }
}

/// Draws the steps of a seed, with their times.
pub fn steps(seed: u64, mishap: Option<Mishap>, has_anchors: bool) -> Vec<(Duration, Step)> {
    let mut dice = Dice::named(seed, "steps");
    let mut plan = Plan { now: dice.millis(300, 2500), steps: Vec::new() };
    if let Some(mishap) = mishap {
        plan.mishap(&mut dice, mishap);
        plan.steps.push((plan.now, Step::End));
    }
    if has_anchors && mishap.is_none_or(|mishap| !mishap.needs_anchors()) {
        for _ in 0..dice.below(3) {
            plan.trouble_of_anchors(&mut dice);
        }
    }
    plan.steps
}

struct Plan {
    now: Duration,
    steps: Vec<(Duration, Step)>,
}

impl Plan {
    fn then(&mut self, after: Duration, step: Step) {
        self.now += after;
        self.steps.push((self.now, step));
    }

    fn mishap(&mut self, dice: &mut Dice, mishap: Mishap) {
        match mishap {
            Mishap::CopiedFile => {
                self.then(Duration::ZERO, Step::Copy);
                self.then(dice.millis(0, 1500), Step::StartCopy { with_anchor: dice.one_in(2) });
                if !dice.one_in(3) {
                    self.then(dice.millis(1000, 2500), Step::Adopt);
                }
                self.then(GRACE + dice.millis(500, 2500), Step::StopCopy);
            }
            Mishap::OldPutBack => {
                self.then(Duration::ZERO, Step::Copy);
                self.then(dice.millis(200, 2500), Step::PutBackOld { into_file: dice.one_in(2) });
                self.then(dice.millis(500, 2000), Step::PutBackCurrent);
            }
            Mishap::Deleted => {
                self.then(Duration::ZERO, Step::Delete);
                self.then(dice.millis(500, 2000), Step::PutBackCurrent);
            }
            Mishap::LiveClone => {
                self.then(Duration::ZERO, Step::Copy);
                self.then(dice.millis(1200, 2500), Step::StartClone);
                self.then(WATCH + dice.millis(1000, 2500), Step::StopCopy);
            }
            Mishap::FencedClone => {
                self.then(Duration::ZERO, Step::Answer { site: ORIGINAL, answers: Answers::Errors });
                self.then(LEASE_AND_MORE, Step::StartCloneOfFenced);
                self.then(WATCH + dice.millis(500, 2500) + GRACE, Step::MoveVolume);
            }
        }
    }

    fn trouble_of_anchors(&mut self, dice: &mut Dice) {
        let at = dice.millis(200, 4000);
        if dice.one_in(4) {
            self.steps.push((at, Step::Lose));
            return;
        }
        let answers = *dice.pick(&[Answers::Late, Answers::Errors]);
        let until = at + dice.millis(300, 7000);
        for site in [ORIGINAL, COPY] {
            self.steps.push((at, Step::Answer { site, answers }));
            self.steps.push((until, Step::Answer { site, answers: Answers::AtOnce }));
        }
    }
}
