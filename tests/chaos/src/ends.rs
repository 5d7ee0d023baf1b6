//! A process ended on the spot at a point that it comes to, and others with it.

use std::{
    fs::{self, File},
    io::Write,
    path::PathBuf,
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use dice::Dice;
use proto::Commitment;

use crate::{
    calls::{bind, in_time},
    cases::Case,
    nemesis::Nemesis,
    points::{self, Point, Role, Trigger},
    run, starts,
};

/// A point that is not reached by then is no point of this service.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Who else is ended, before anything is started again.
const ALONE: u64 = 0;
const WITH_ONE_OF_THE_OTHER_ROLE: u64 = 1;
const TURNS: u64 = 3;
const COMPANY: [&str; TURNS as usize] = ["alone", "and one of the other role", "and everyone else"];
/// As a ledger is begun, and of a coordinator that starts on it for the first time, with no worker yet.
const NO_COMPANY: &str = "at a first start without company";

/// The output of a process that dies within a line.
const HALF_A_LINE: &[u8] = b"0123456789abcdef {\"row";

/// Until every point has been reached in every company, those of a first start as often without any.
pub fn rounds() -> u64 {
    points::all().len() as u64 * TURNS
}

impl Nemesis<'_> {
    /// Every point in turn: the process alone, then with one of the other role, then with everyone.
    pub fn end_at(&mut self, turn: u64, dice: &mut Dice) -> anyhow::Result<String> {
        let points = points::all();
        let point = &points[(turn % points.len() as u64) as usize];
        if point.way == Trigger::FirstStart {
            let ended = starts::end_at(&run::program()?, point, dice)?;
            *self.figures.ends.entry(NO_COMPANY).or_default() += 1;
            return Ok(ended);
        }
        let others = turn / points.len() as u64 % TURNS;
        let ended = match point.way {
            Trigger::Start => self.end_as_it_starts(point, dice),
            Trigger::Reopening => self.end_as_it_reads_its_record(point, dice),
            _ => self.end_as_it_works(point, turn, dice),
        };
        self.environment.end_nobody()?;
        let ended = ended?;
        let worker = dice.below(self.cluster.workers as u64) as usize;
        match (others, point.role) {
            (ALONE, _) => {}
            (WITH_ONE_OF_THE_OTHER_ROLE, Role::Coordinator) => self.cluster.kill_worker(worker),
            (WITH_ONE_OF_THE_OTHER_ROLE, Role::Worker) => self.cluster.kill_coordinator(),
            _ => self.cluster.kill_all(),
        }
        sleep(dice.millis(0, 500));
        let beside = COMPANY[others as usize];
        *self.figures.ends.entry(beside).or_default() += 1;
        Ok(format!("{ended} ended at {}, {beside}", point.name))
    }

    fn end_as_it_starts(&mut self, point: &Point, dice: &mut Dice) -> anyhow::Result<String> {
        let worker = dice.below(self.cluster.workers as u64) as usize;
        let (role, started) = match point.role {
            Role::Coordinator => {
                self.cluster.kill_coordinator();
                self.environment.end_at("coordinator", &point.name, 0)?;
                ("coordinator".to_owned(), self.cluster.processes.start_coordinator())
            }
            Role::Worker => {
                let name = format!("worker-{worker}");
                self.cluster.kill_worker(worker);
                // As one that has lost its disk: a record is begun only where there is none.
                fs::remove_dir_all(self.folder_of(&name))?;
                self.environment.end_at(&name, &point.name, 0)?;
                let started = self.cluster.processes.start_worker(worker);
                (name, started)
            }
        };
        ensure!(started.is_err(), "{role} started, and never came to {}", point.name);
        Ok(role)
    }

    fn folder_of(&self, worker: &str) -> PathBuf {
        self.cluster.processes.dir().join("workers").join(worker)
    }

    /// Wherever the process dies, whole lines are complete; the next start drops a cut line and continues.
    fn end_as_it_reads_its_record(&mut self, point: &Point, dice: &mut Dice) -> anyhow::Result<String> {
        let worker = dice.below(self.cluster.workers as u64) as usize;
        let name = format!("worker-{worker}");
        self.cluster.kill_worker(worker);
        let path = self.folder_of(&name).join("released.log");
        let mut whole = fs::read(&path).with_context(|| path.display().to_string())?;
        // Killed in the middle of a line, it may have left some of it.
        whole.truncate(whole.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1));
        let mut record = File::options().append(true).open(&path)?;
        record.set_len(whole.len() as u64)?;
        record.write_all(HALF_A_LINE)?;
        self.environment.end_at(&name, &point.name, 0)?;
        let started = self.cluster.processes.start_worker(worker);
        ensure!(started.is_err(), "{name} started, and never came to {}", point.name);
        let left = fs::read(&path)?;
        ensure!(left.starts_with(&whole), "{name} ended at {}, and its record has lost lines", point.name);
        Ok(name)
    }

    fn end_as_it_works(&mut self, point: &Point, turn: u64, dice: &mut Dice) -> anyhow::Result<String> {
        // Not only the first row after the last round's end.
        let before = if point.way == Trigger::Training { dice.below(3) } else { 0 };
        match point.role {
            Role::Coordinator => self.environment.end_at("coordinator", &point.name, before)?,
            Role::Worker => (0..self.cluster.workers).try_for_each(|worker| {
                self.environment.end_at(&format!("worker-{worker}"), &point.name, before)
            })?,
        }
        let began = Instant::now();
        for number in 0.. {
            if let Some(ended) = self.ended(point.role) {
                return Ok(ended);
            }
            ensure!(began.elapsed() < TIMEOUT, "{} was not reached in {TIMEOUT:?}", point.name);
            self.lead_to(point, &format!("end-{turn}-{number}"), dice)?;
            sleep(Duration::from_millis(10));
        }
        unreachable!("an end of all numbers")
    }

    fn ended(&self, role: Role) -> Option<String> {
        match role {
            Role::Coordinator => (!self.cluster.runs(role, 0)).then(|| "coordinator".to_owned()),
            Role::Worker => {
                let ended = (0..self.cluster.workers).find(|worker| !self.cluster.runs(role, *worker));
                ended.map(|worker| format!("worker-{worker}"))
            }
        }
    }

    /// Once; calls may fail, since whom they ask may have ended.
    fn lead_to(&mut self, point: &Point, job: &str, dice: &mut Dice) -> anyhow::Result<()> {
        let session = self.session;
        let newest = session.cases.lasting().pop().context("a job")?.job.clone();
        let jobs = session.client.jobs();
        match point.way {
            Trigger::Reshard => {
                let shards = *dice.pick(&[4, 5, 6, 7]);
                let _ = self.runtime.block_on(in_time(jobs.reshard(&newest, shards)));
            }
            Trigger::Checkpoint => {
                let _ = self.runtime.block_on(in_time(jobs.checkpoint(&newest)));
            }
            Trigger::Loss => {
                let worker = dice.below(self.cluster.workers as u64) as usize;
                self.cluster.kill_worker(worker);
                let _ = self.cluster.processes.start_worker(worker);
            }
            Trigger::Job | Trigger::Rewind => {
                let case = Case::named(job, dice.below(4) as usize)?;
                let _ = self.runtime.block_on(async {
                    in_time(jobs.create(case.request.clone())).await?;
                    bind(session, &case.job, 0, 0, Commitment::of_text("before")).await?;
                    in_time(jobs.rewind(&case.job, 0, 0)).await?;
                    in_time(jobs.destroy(&case.job)).await
                });
            }
            Trigger::Training | Trigger::Start | Trigger::Reopening | Trigger::FirstStart => {}
        }
        Ok(())
    }
}
