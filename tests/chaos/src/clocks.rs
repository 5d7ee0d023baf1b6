//! One process's wall clock is set, and its own log has to show that it was.

use std::{
    fs,
    path::Path,
    thread::sleep,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::ensure;
use dice::Dice;

use crate::{calls::in_time, cases::Case, logs::Log, nemesis::Nemesis};

/// A process that has said nothing under the other time by then has not seen it.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Between the time that a line has and the one that it should have; far below what clocks are set by.
const NEAR: i64 = 120;
const BETWEEN_JOBS: Duration = Duration::from_secs(2);

impl Nemesis<'_> {
    pub fn clock(&mut self, worker: usize, turn: u64, dice: &mut Dice) -> anyhow::Result<String> {
        let role = if dice.one_in(2) { "coordinator".to_owned() } else { format!("worker-{worker}") };
        let seconds = *dice.pick(&[3_600, -3_600, 86_400, -86_400]);
        let log = Log::of(self.cluster, &role)?;
        self.environment.set_clock(&role, seconds)?;
        sleep(dice.millis(500, 1_500));
        let said = self.until_it_says_so(&log, seconds, turn)?;
        ensure!(said, "{role} was set by {seconds:+} s, and no line of its log has that time");
        self.figures.other_clocks_seen += 1;
        if dice.one_in(2) {
            self.environment.set_clock(&role, 0)?;
        }
        Ok(format!("clock of {role} set by {seconds:+} s"))
    }

    /// A process says little by itself: jobs come and go meanwhile, of which coordinator and workers each write a line.
    fn until_it_says_so(&self, log: &Log, seconds: i64, turn: u64) -> anyhow::Result<bool> {
        let began = Instant::now();
        let jobs = self.session.client.jobs();
        for number in 0.. {
            let case = Case::named(&format!("clock-{turn}-{number}"), 0)?;
            let _ = self.runtime.block_on(in_time(jobs.create(case.request.clone())));
            let asked = Instant::now();
            let mut has_said = false;
            while !has_said && asked.elapsed() < BETWEEN_JOBS {
                sleep(Duration::from_millis(20));
                let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() as i64;
                has_said = log.times()?.iter().any(|time| (time - now - seconds).abs() < NEAR);
            }
            let _ = self.runtime.block_on(in_time(jobs.destroy(&case.job)));
            if has_said || began.elapsed() > TIMEOUT {
                return Ok(has_said);
            }
        }
        unreachable!("a job of all numbers")
    }
}

/// libfaketime keeps two files in memory for each process, and a killed process leaves them.
pub fn sweep_clocks(folder: &Path, lives: impl Fn(&str) -> bool) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| {
            name.strip_prefix("faketime_shm_").or_else(|| name.strip_prefix("sem.faketime_sem_"))
        });
        if process.is_some_and(|process| !lives(process)) {
            // Another run may have been quicker.
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_killed_processes_left_of_their_clocks_is_swept() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["faketime_shm_7", "sem.faketime_sem_7", "faketime_shm_8", "sem.faketime_sem_8", "x_7"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        sweep_clocks(folder.path(), |process| process == "8");
        let mut left: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["faketime_shm_8", "sem.faketime_sem_8", "x_7"]);
    }
}
