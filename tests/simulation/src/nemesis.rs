//! What goes wrong, and when: drawn from the seed before the run begins. Everything that is broken is mended by a
//! known time, after which the jobs must go on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dice::Dice;
use turmoil::Sim;

use crate::hands::Kept;
use crate::mishaps::{self, Step};
use crate::run::{LATENCY, SHORTEST_LATENCY};
use crate::software::COORDINATOR;
use crate::world::{ORIGINAL, WORKERS, World, worker};

const FIRST: u64 = 200;
const LAST: u64 = 6000;
/// Longest time of a fault, in milliseconds.
const LONGEST: u64 = 4000;

#[derive(Clone, Debug)]
pub enum Act {
    /// The process ends and starts again: what it wrote stays.
    Kill {
        host: String,
        down: Duration,
    },
    Start {
        host: String,
    },
    /// The machine of the coordinator: one in `lost` of the unsynced changes is gone.
    PowerCut {
        lost: u64,
        down: Duration,
    },
    /// The same, in the middle of the changes of a transaction.
    PowerCutWithin {
        changes: u32,
    },
    Partition {
        a: String,
        b: String,
    },
    PartitionOneWay {
        from: String,
        to: String,
    },
    Hold {
        a: String,
        b: String,
    },
    Repair {
        a: String,
        b: String,
    },
    RepairOneWay {
        from: String,
        to: String,
    },
    Release {
        a: String,
        b: String,
    },
    Slow {
        most: Duration,
    },
    DiskFull,
    DiskFree,
    SyncFails,
    Drain {
        worker: usize,
    },
    Grow,
    /// To the ledger's file.
    Mishap(Step),
}

pub struct Nemesis {
    /// The faults by time and by the order in which they were drawn.
    plan: BTreeMap<(Duration, usize), Act>,
    dice: Dice,
    healed: Duration,
    latency: Duration,
    pub kept: Kept,
}

impl Nemesis {
    pub fn new(world: &World) -> Self {
        let seed = world.seed;
        let mut dice = Dice::named(seed, "nemesis");
        let mut drawn = FaultPlan::default();
        // One seed in ten is calm: it shows what a run without faults looks like.
        let faults = if dice.one_in(10) { 0 } else { dice.within(1, 9) };
        for _ in 0..faults {
            let at = dice.millis(FIRST, LAST);
            let lasts = dice.millis(50, LONGEST);
            drawn.fault(&mut dice, at, lasts);
        }
        for (at, step) in mishaps::steps(seed, world.mishap, world.anchors().is_some()) {
            drawn.add(at, Act::Mishap(step));
        }
        let healed = drawn.plan.keys().map(|(at, _)| *at).max().unwrap_or_default();
        let healed = healed.max(Duration::from_millis(LAST));
        Self { plan: drawn.plan, dice, healed, latency: LATENCY, kept: Kept::default() }
    }

    /// Returns the time after which no more faults are injected.
    pub fn healed(&self) -> Duration {
        self.healed
    }

    /// Does what is due.
    pub fn act(&mut self, sim: &mut Sim<'_>, world: &Arc<World>) {
        let now = sim.elapsed();
        while let Some(entry) = self.plan.first_entry().filter(|entry| entry.key().0 <= now) {
            let act = entry.remove();
            self.perform(sim, world, act);
        }
        if world.site(ORIGINAL).disk().power_is_out() {
            self.perform(sim, world, Act::PowerCut { lost: 2, down: Duration::from_millis(300) });
        }
        for site in &world.sites {
            if site.take_stopped() {
                // A supervisor starts it again.
                site.disk().process_ended();
                self.at_once(sim, |sim| sim.crash(site.host));
                world.closed(site.host);
                self.later(sim, Duration::from_millis(400), Act::Start { host: site.host.into() });
            }
        }
    }

    pub fn later(&mut self, sim: &Sim<'_>, after: Duration, act: Act) {
        let at = sim.elapsed() + after;
        self.plan.insert((at, usize::MAX - self.plan.len()), act);
    }

    /// tokio drops the tasks of a runtime in an order that no seed decides. So that this can't be seen, the ends of its
    /// connections reach all others at the same time.
    pub fn at_once(&self, sim: &mut Sim<'_>, end: impl FnOnce(&mut Sim<'_>)) {
        sim.set_max_message_latency(SHORTEST_LATENCY);
        end(sim);
        sim.set_max_message_latency(self.latency);
    }

    fn perform(&mut self, sim: &mut Sim<'_>, world: &Arc<World>, act: Act) {
        let fault = |kind, about: &str| world.history().fault(kind, about);
        match act {
            Act::Kill { host, down } => {
                fault("kill", &host);
                world.disk_if(&host, |disk| disk.process_ended());
                self.at_once(sim, |sim| sim.crash(host.as_str()));
                world.closed(&host);
                self.later(sim, down, Act::Start { host });
            }
            Act::Start { host } => {
                world.history().event(format!("{host} starts"));
                world.closed(&host);
                self.at_once(sim, |sim| sim.bounce(host.as_str()));
            }
            Act::PowerCut { lost, down } => {
                fault("power cut", &format!("one in {lost} lost"));
                world.site(ORIGINAL).disk().power_cut(lost, &mut self.dice);
                self.at_once(sim, |sim| sim.crash(COORDINATOR));
                world.closed(COORDINATOR);
                self.later(sim, down, Act::Start { host: COORDINATOR.into() });
            }
            Act::PowerCutWithin { changes } => world.site(ORIGINAL).disk().cut_power_after(changes),
            Act::Partition { a, b } => {
                fault("partition", &format!("{a} {b}"));
                sim.partition(a.as_str(), b.as_str());
            }
            Act::PartitionOneWay { from, to } => {
                fault("one-way partition", &format!("{from} to {to}"));
                sim.partition_oneway(from.as_str(), to.as_str());
            }
            Act::Hold { a, b } => {
                fault("hold", &format!("{a} {b}"));
                sim.hold(a.as_str(), b.as_str());
            }
            Act::Repair { a, b } => sim.repair(a.as_str(), b.as_str()),
            Act::RepairOneWay { from, to } => sim.repair_oneway(from.as_str(), to.as_str()),
            Act::Release { a, b } => sim.release(a.as_str(), b.as_str()),
            Act::Slow { most } => {
                fault("latency", &format!("{most:?}"));
                self.latency = most;
                sim.set_max_message_latency(most);
            }
            Act::DiskFull => {
                fault("disk full", "");
                world.site(ORIGINAL).disk().set_full(true);
            }
            Act::DiskFree => world.site(ORIGINAL).disk().set_full(false),
            Act::SyncFails => {
                fault("sync fails", "");
                world.site(ORIGINAL).disk().fail_next_sync();
            }
            Act::Mishap(step) => {
                if let Err(error) = self.mishap(sim, world, step) {
                    world.history().violation(format!("{step:?}: {error:#}"));
                }
            }
            Act::Drain { worker } => {
                fault("drain", &worker.to_string());
                world.history().has_shut_down = true;
                world.drain(worker);
            }
            Act::Grow => {
                fault("worker joins", "");
                world.grow();
                sim.bounce(worker(WORKERS - 1).as_str());
            }
        }
    }
}

#[derive(Default)]
struct FaultPlan {
    plan: BTreeMap<(Duration, usize), Act>,
    /// Pairs of hosts: one fault of the network at a time between them.
    cut: Vec<(String, String)>,
}

impl FaultPlan {
    fn add(&mut self, at: Duration, act: Act) {
        self.plan.insert((at, self.plan.len()), act);
    }

    fn fault(&mut self, dice: &mut Dice, at: Duration, lasts: Duration) {
        match dice.below(16) {
            0 | 1 => self.add(at, Act::Kill { host: worker(dice.below(3) as usize), down: lasts }),
            2 | 3 => self.add(at, Act::Kill { host: COORDINATOR.into(), down: lasts / 2 }),
            4 => self.add(at, Act::PowerCut { lost: dice.within(1, 4), down: lasts / 2 }),
            5 | 6 => self.add(at, Act::PowerCutWithin { changes: dice.below(40) as u32 }),
            7..=11 => self.network(dice, at, lasts),
            12 => {
                self.add(at, Act::Slow { most: dice.millis(50, 600) });
                self.add(at + lasts, Act::Slow { most: LATENCY });
            }
            13 => {
                self.add(at, Act::DiskFull);
                self.add(at + lasts, Act::DiskFree);
            }
            14 => {
                if dice.one_in(2) {
                    self.add(at, Act::SyncFails)
                } else {
                    self.add(at, Act::Grow)
                }
            }
            _ => {
                let at_worker = dice.below(3) as usize;
                self.add(at, Act::Drain { worker: at_worker });
                self.add(at + lasts, Act::Start { host: worker(at_worker) });
            }
        }
    }

    fn network(&mut self, dice: &mut Dice, at: Duration, lasts: Duration) {
        let hosts = [COORDINATOR, "worker-0", "worker-1", "worker-2", "left", "right"];
        let a = *dice.pick(&hosts);
        let b = *dice.pick(&hosts);
        let (a, b) = if a < b { (a.to_owned(), b.to_owned()) } else { (b.to_owned(), a.to_owned()) };
        if a == b || self.cut.contains(&(a.clone(), b.clone())) {
            return;
        }
        self.cut.push((a.clone(), b.clone()));
        let until = at + lasts;
        match dice.below(4) {
            0 | 1 => {
                self.add(at, Act::Partition { a: a.clone(), b: b.clone() });
                self.add(until, Act::Repair { a, b });
            }
            2 => {
                let (from, to) = if dice.one_in(2) { (a, b) } else { (b, a) };
                self.add(at, Act::PartitionOneWay { from: from.clone(), to: to.clone() });
                self.add(until, Act::RepairOneWay { from, to });
            }
            _ => {
                self.add(at, Act::Hold { a: a.clone(), b: b.clone() });
                self.add(until, Act::Release { a, b });
            }
        }
    }
}
