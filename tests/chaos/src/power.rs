//! Machines that lose power. Their disks are ext4, each in a file of its own: the kernel's request to shut a file system
//! down (which its developers test power failures with) ends it on the spot, and what was not synced is gone. Then the
//! processes are killed, the next mount replays the journal, and everything starts again.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use dice::Dice;
use ledger::Ledger;
use noise_worker::release_log::Line;

use crate::{
    environment::run,
    history::{Row, Violation},
    nemesis::Nemesis,
};

const MIB: u64 = 64;
/// FS_IOC_SHUTDOWN, without flushing the journal, by the interpreter that the tests need anyway: a foreign call of our
/// own would be unsafe code. Right before, a file is written and not synced.
const SHUT_DOWN: &str = "import fcntl, os, struct, sys\n\
                         folder = os.open(sys.argv[1], os.O_RDONLY)\n\
                         with open(os.path.join(sys.argv[1], sys.argv[2]), 'wb') as witness:\n    \
                         witness.write(bytes([170]) * 8192)\n\
                         fcntl.ioctl(folder, 0x8004587D, struct.pack('I', 2))";
/// That file. A power cut that leaves any of its bytes is none.
const WITNESS: &str = "never-synced";
/// Mount options that keep unsynced data unwritten as long as possible, even of a file that replaces another.
const MOUNTED: &str = "loop,noauto_da_alloc,commit=600";
/// Longest wait until the kernel releases an unmounted disk.
const TIMEOUT: Duration = Duration::from_secs(10);
/// A worker whose record has not grown by then serves little.
const TO_GROW: Duration = Duration::from_secs(2);

/// The disk of one machine. Unmounted on drop.
pub struct Disk {
    image: PathBuf,
    folder: PathBuf,
}

impl Disk {
    /// Mounted, empty, and seen to lose what it should.
    pub fn make(image: PathBuf, folder: PathBuf) -> anyhow::Result<Self> {
        fs::create_dir_all(&folder)?;
        // One that a killed run left may be mounted still.
        let file = File::create_new(&image).with_context(|| format!("create {}", image.display()))?;
        file.set_len(MIB << 20)?;
        run(&["mkfs.ext4", "-q", "-m", "0", &image.display().to_string()])?;
        let disk = Self { image, folder };
        disk.mount()?;
        disk.lose_power()?;
        disk.start_again()?;
        fs::set_permissions(&disk.folder, fs::Permissions::from_mode(0o700))?;
        File::open(&disk.folder)?.sync_all()?;
        Ok(disk)
    }

    fn mount(&self) -> anyhow::Result<()> {
        let words = [self.image.display().to_string(), self.folder.display().to_string()];
        run(&["mount", "-t", "ext4", "-o", MOUNTED, &words[0], &words[1]])
    }

    /// Nothing reaches it from now on, and what was not synced is lost.
    pub fn lose_power(&self) -> anyhow::Result<()> {
        run(&["python3", "-c", SHUT_DOWN, &self.folder.display().to_string(), WITNESS])?;
        let written = fs::write(self.folder.join("too-late"), "");
        ensure!(written.is_err(), "a file could be made on a disk without power");
        Ok(())
    }

    /// Call it when no process has a file open there. The journal is replayed.
    pub fn start_again(&self) -> anyhow::Result<()> {
        run(&["umount", &self.folder.display().to_string()])?;
        let began = Instant::now();
        // Mounted once more while the old mount lives, an image would have two writers.
        loop {
            let held = Command::new("losetup").arg("-j").arg(&self.image).output()?;
            ensure!(held.status.success(), "losetup -j {}: {}", self.image.display(), held.status);
            if held.stdout.is_empty() {
                break;
            }
            ensure!(began.elapsed() < TIMEOUT, "{} is still held", self.image.display());
            sleep(Duration::from_millis(10));
        }
        self.mount()?;
        let witness = self.folder.join(WITNESS);
        let left = fs::metadata(&witness).map_or(0, |found| found.len());
        ensure!(left == 0, "{left} bytes that were never synced outlived the loss of power");
        // Its name may be there: the journal took it with another file's sync.
        if witness.try_exists()? {
            fs::remove_file(witness)?;
        }
        Ok(())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = run(&["umount", "--lazy", &self.folder.display().to_string()]);
    }
}

/// Makes the disk of the coordinator's machine and that of all workers' machines.
pub fn disks(dir: &Path) -> anyhow::Result<[Disk; 2]> {
    let make = |name: &str| Disk::make(dir.join(format!("{name}.ext4")), dir.join(name));
    Ok([make("coordinator")?, make("workers")?])
}

impl Nemesis<'_> {
    /// Cuts the power of the coordinator's machine, of the workers' machine, or of both at once.
    pub fn power_cut(&mut self, dice: &mut Dice) -> anyhow::Result<String> {
        let [coordinator, workers] = self.environment.disks.as_ref().context("disks that can lose power")?;
        let (of_coordinator, of_workers, whose) = *dice.pick(&[
            (true, false, "the coordinator's"),
            (false, true, "the workers'"),
            (true, true, "every"),
        ]);
        let chosen: Vec<_> = [(coordinator, of_coordinator), (workers, of_workers)]
            .into_iter()
            .filter(|(_, cut)| *cut)
            .collect();
        let records = if of_workers { self.records_on_disk()? } else { Vec::new() };
        for (disk, _) in &chosen {
            disk.lose_power()?;
        }
        // A process that continues for a moment can keep nothing, and so may answer nothing that has to be kept.
        sleep(dice.millis(0, 300));
        if of_coordinator {
            self.cluster.kill_coordinator();
        }
        if of_workers {
            (0..self.cluster.workers).for_each(|worker| self.cluster.kill_worker(worker));
        }
        for (disk, _) in &chosen {
            disk.start_again()?;
        }
        if of_coordinator {
            self.check_ledger_after_the_cut()?;
        }
        if of_workers {
            self.check_records_after_the_cut(&records)?;
        }
        self.figures.power_cuts += 1;
        sleep(dice.millis(0, 300));
        Ok(format!("power of {whose} machine cut"))
    }

    /// Checks on a copy that all acknowledged bindings are there before anything is repaired.
    fn check_ledger_after_the_cut(&self) -> anyhow::Result<()> {
        let folder = tempfile::tempdir()?;
        let copy = folder.path().join("ledger.redb");
        fs::copy(self.environment.data_dir().join("ledger.redb"), &copy)?;
        match Ledger::open(&copy) {
            Ok(ledger) => self.session.history.check_ledger(&ledger),
            Err(error) => {
                self.session
                    .history
                    .violation(Violation::Lost, format!("the ledger after a power cut: {error}"));
            }
        }
        Ok(())
    }

    /// What the workers' records had before an append that has begun since: an append begins once the one before is on
    /// the disk. Of those that get one in time.
    fn records_on_disk(&self) -> anyhow::Result<Vec<(usize, Vec<u8>)>> {
        let before = (0..self.cluster.workers).map(|worker| Ok((worker, self.record(worker)?)));
        let before = before.collect::<anyhow::Result<Vec<_>>>()?;
        let began = Instant::now();
        loop {
            let grown = before.iter().map(|(worker, old)| Ok(self.record(*worker)?.len() > old.len()));
            let grown = grown.collect::<anyhow::Result<Vec<bool>>>()?;
            let is_over = began.elapsed() > TO_GROW;
            if grown.iter().all(|grown| *grown) || is_over && grown.contains(&true) {
                let both = before.into_iter().zip(grown);
                return Ok(both.filter(|(_, grown)| *grown).map(|(record, _)| record).collect());
            }
            ensure!(began.elapsed() < TIMEOUT, "no worker has noted a row within {TIMEOUT:?}");
            sleep(Duration::from_millis(5));
        }
    }

    /// Empty where a worker has none yet.
    fn record(&self, worker: usize) -> anyhow::Result<Vec<u8>> {
        let path = self.cluster.processes.dir().join(format!("workers/worker-{worker}/released.log"));
        match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            read => read.with_context(|| path.display().to_string()),
        }
    }

    /// Each has what was on its disk, and every row that was delivered is in one at the least.
    fn check_records_after_the_cut(&self, before: &[(usize, Vec<u8>)]) -> anyhow::Result<()> {
        for (worker, old) in before {
            if !self.record(*worker)?.starts_with(old) {
                let text = format!("worker {worker} has lost lines of its record in a power cut");
                self.session.history.violation(Violation::Lost, text);
            }
        }
        let mut kept = BTreeSet::new();
        for worker in 0..self.cluster.workers {
            kept.extend(rows_of(&self.record(worker)?));
        }
        for (job, row) in self.session.history.delivered_rows() {
            if !kept.contains(&(job.clone(), row)) {
                let text =
                    format!("{job} row {row} was delivered, and is in no worker's record after a power cut");
                self.session.history.violation(Violation::Lost, text);
            }
        }
        Ok(())
    }
}

/// Returns the rows of the first branch in the whole lines of a record. The worker that reads them checks them.
fn rows_of(record: &[u8]) -> Vec<Row> {
    let mut jobs = Vec::new();
    let mut rows = Vec::new();
    for line in record.split_inclusive(|byte| *byte == b'\n') {
        let json = line.strip_suffix(b"\n").and_then(|line| line.splitn(2, |byte| *byte == b' ').nth(1));
        match json.and_then(|json| serde_json::from_slice(json).ok()) {
            Some(Line::Job { name, .. }) => jobs.push(name),
            Some(Line::Row { job, branch: 0, row, .. }) => {
                rows.extend(jobs.get(job as usize).map(|job| (job.clone(), row)));
            }
            _ => {}
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use proto::JobId;

    use super::*;

    #[test]
    fn a_disk_that_lost_power_has_what_was_synced_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("disk");
        let disk = match Disk::make(folder.path().join("image"), at.clone()) {
            Ok(disk) => disk,
            Err(error) => return println!("SKIPPED: {error:#}"),
        };
        fs::write(at.join("synced"), "kept").unwrap();
        File::open(at.join("synced")).unwrap().sync_all().unwrap();
        File::open(&at).unwrap().sync_all().unwrap();
        fs::write(at.join("not-synced"), "lost").unwrap();
        disk.lose_power().unwrap();
        assert!(File::create(at.join("later")).is_err());
        disk.start_again().unwrap();
        assert_eq!(fs::read(at.join("synced")).unwrap(), b"kept");
        assert_ne!(fs::read(at.join("not-synced")).unwrap_or_default(), b"lost");
        assert!(!at.join("later").exists() && !at.join(WITNESS).exists());
        fs::write(at.join("again"), "").unwrap();
    }

    #[test]
    fn rows_are_read_from_whole_lines_alone() {
        let line =
            |row| format!("hash {{\"row\":{{\"job\":0,\"branch\":0,\"row\":{row},\"commitment\":\"c\"}}}}");
        let id = "ab".repeat(32);
        let job = format!(
            "hash {{\"job\":{{\"number\":0,\"ledger\":\"{id}\",\"nonce\":\"{id}\",\"name\":\"j\"}}}}"
        );
        let record = format!("{job}\n{}\n{}", line(7), line(8));
        assert_eq!(rows_of(record.as_bytes()), [(JobId::new("j").unwrap(), 7)]);
    }
}
