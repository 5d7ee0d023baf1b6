//! Carries out what happens to the ledger's file ([`crate::mishaps`]).

use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use ledger::{AnchorPlace, Ledger, LedgerError};
use node::process::rng;
use turmoil::Sim;

use crate::anchors::Answers;
use crate::mishaps::Step;
use crate::nemesis::{Act, Nemesis};
use crate::site::{Site, Standing};
use crate::software::clock;
use crate::world::{COPY, ORIGINAL, World};

/// The time that a coordinator is down for a change of its file.
const DOWN: Duration = Duration::from_millis(300);

/// What an operator has beside what is in place.
#[derive(Debug, Default)]
pub struct Kept {
    /// The bytes of a copy, and the entries of its chains.
    copy: Option<(Vec<u8>, u64)>,
    /// The current ledger, where it is not in its place.
    current: Option<Vec<u8>>,
}

impl Nemesis {
    /// Carries out one step.
    pub fn mishap(&mut self, sim: &mut Sim<'_>, world: &Arc<World>, step: Step) -> anyhow::Result<()> {
        let original = world.site(ORIGINAL);
        let copy = world.site(COPY);
        let volume = original.volume();
        match step {
            Step::Copy => {
                let is_taken_up = original.ledger().as_ref().is_some_and(|ledger| ledger.copied().is_none());
                if let Some(height) = volume.height().filter(|_| is_taken_up && volume.disk.is_named()) {
                    self.kept.copy = Some((volume.disk.contents(), height));
                    world.history().event(format!("the ledger is copied, with {height} entries"));
                }
            }
            Step::StartCopy { with_anchor } => {
                let Some((bytes, _)) = self.kept.copy.take() else { return Ok(()) };
                if with_anchor {
                    volume.copy_anchors(&copy.volume())?;
                }
                world.history().fault("copied ledger", if with_anchor { "with its anchor" } else { "" });
                self.start_copy(sim, world, bytes, Standing::Copy);
            }
            Step::Adopt if copy.standing() == Standing::Copy => {
                self.end(sim, world, copy);
                world.history().fault("adopted copy", "");
                adopt(world, copy)?;
                copy.set_standing(Standing::Adopted);
                self.later(sim, DOWN, Act::Start { host: copy.host.into() });
            }
            Step::PutBackOld { into_file } => {
                let copied = self.kept.copy.take();
                let Some((bytes, _)) = copied.filter(|(_, height)| volume.height() > Some(*height)) else {
                    return Ok(());
                };
                self.end(sim, world, original);
                self.kept.current = Some(volume.disk.contents());
                if !into_file {
                    volume.hide_file(false)?;
                }
                world.history().fault("old copy put back", if into_file { "into the file" } else { "" });
                self.put_in_place(sim, original, &bytes, Standing::Copy);
            }
            Step::Delete => {
                if volume.height().is_none() || !volume.disk.is_named() {
                    return Ok(());
                }
                self.end(sim, world, original);
                self.kept.current = Some(volume.disk.contents());
                volume.hide_file(true)?;
                world.history().fault("deleted ledger", "");
                self.put_in_place(sim, original, &[], Standing::Missing);
                let begun = Ledger::init(&volume.path(), rng::nonce()?);
                ensure!(matches!(begun, Err(LedgerError::Lost { .. })), "begun beside an anchor: {begun:?}");
            }
            Step::PutBackCurrent => {
                let Some(bytes) = self.kept.current.take() else { return Ok(()) };
                self.end(sim, world, original);
                volume.put_file_back()?;
                world.history().event("the ledger is put back");
                self.put_in_place(sim, original, &bytes, Standing::Current);
            }
            Step::StartClone | Step::StartCloneOfFenced | Step::MoveVolume => self.clone(sim, world, step),
            Step::Answer { site, answers } => {
                if answers != Answers::AtOnce && site == ORIGINAL {
                    world.history().fault("anchors answer badly", format!("{answers:?}"));
                }
                world.anchors_if_any(|anchors| anchors.answer(site, answers));
            }
            Step::Lose => {
                world.history().fault("lost anchor", "");
                world.anchors_if_any(|anchors| anchors.lose(&world.ledger_id));
            }
            Step::StopCopy => {
                self.kept.copy = None;
                world.turn_copy_off();
                self.end(sim, world, copy);
            }
            Step::End => world.end_mishap(),
            Step::Adopt => {}
        }
        Ok(())
    }

    /// The steps of clones.
    fn clone(&mut self, sim: &mut Sim<'_>, world: &Arc<World>, step: Step) {
        let original = world.site(ORIGINAL);
        let copy = world.site(COPY);
        let Some(anchors) = world.anchors() else { return };
        let seen = anchors.height(&world.ledger_id);
        match step {
            Step::StartClone => match self.kept.copy.take() {
                Some((bytes, height)) if seen > Some(height) => {
                    world.history().fault("live clone", "");
                    self.start_copy(sim, world, bytes, Standing::Clone);
                }
                Some(copied) => {
                    self.kept.copy = Some(copied);
                    self.later(sim, DOWN, Act::Mishap(step));
                }
                None => {}
            },
            Step::StartCloneOfFenced => {
                if seen.is_some() && original.disk().is_named() {
                    world.history().fault("clone of a fenced ledger", "");
                    self.start_copy(sim, world, original.disk().durable_contents(), Standing::Clone);
                }
            }
            _ => {
                anchors.answer(ORIGINAL, Answers::AtOnce);
                world.turn_copy_off();
                self.end(sim, world, copy);
                // Nothing else shows which of the two may have bound rows.
                if anchors.last_writer() == Some(COPY) {
                    self.end(sim, world, original);
                    world.history().fault("volume moved", "");
                    copy.attach(original.attach(copy.volume()));
                    original.set_standing(Standing::Current);
                    self.later(sim, DOWN, Act::Start { host: original.host.into() });
                }
                copy.set_standing(Standing::Missing);
            }
        }
    }

    fn start_copy(&mut self, sim: &mut Sim<'_>, world: &World, bytes: Vec<u8>, standing: Standing) {
        let copy = world.site(COPY);
        let mut volume = copy.volume();
        volume.has_anchor = standing != Standing::Clone;
        copy.attach(volume);
        world.turn_copy_on();
        self.put_in_place(sim, copy, &bytes, standing);
    }

    fn put_in_place(&mut self, sim: &Sim<'_>, site: &Site, bytes: &[u8], standing: Standing) {
        site.disk().replace(bytes);
        site.set_standing(standing);
        self.later(sim, DOWN, Act::Start { host: site.host.into() });
    }

    fn end(&self, sim: &mut Sim<'_>, world: &World, site: &Site) {
        site.disk().process_ended();
        self.at_once(sim, |sim| sim.crash(site.host));
        world.closed(site.host);
    }
}

fn adopt(world: &World, copy: &Site) -> anyhow::Result<()> {
    let volume = copy.volume();
    let path = volume.path();
    let ledger = Ledger::open_on(volume.disk.open(), &path, world.ledger_id)?.with_clock(clock());
    let place = AnchorPlace::of_ledger(&path);
    let nonce = || rng::nonce().map_err(anyhow::Error::from);
    let adopted = release::adoption::adopt(&ledger, &place, nonce)?;
    let jobs: Vec<_> = adopted.1.iter().map(|job| format!("{} at row {}", job.job, job.from_row)).collect();
    world.history().event(format!("adopted: {}", jobs.join(", ")));
    Ok(())
}
