//! Old copies of the ledger in its place: nothing is bound until the right one is back.

use std::{
    fs,
    path::{Path, PathBuf},
    thread::sleep,
};

use dice::Dice;
use ledger::Ledger;

use crate::{cluster::LEASE_TTL, damage::write, nemesis::Nemesis, side_cluster::copy_folder};

impl Nemesis<'_> {
    /// A copy that was taken while the ledger was open is put in its place: as another file, in its file, in its file with
    /// the anchor of then, as a volume that is put back, or with the workers' records of then too. The right ledger comes
    /// back later.
    pub fn old_ledger(&mut self, turn: u64, dice: &mut Dice) -> anyhow::Result<String> {
        let ledger = self.ledger();
        let place = turn % 4;
        let workers = self.cluster.options.dir.join("workers");
        let records = self.cluster.options.dir.join("records");
        let old = Ledger::backup(&ledger)?;
        let anchors = self.bytes_of_anchors()?;
        copy_folder(&workers, &records)?;
        let opened_again = dice.one_in(2);
        if opened_again {
            self.cluster.kill_coordinator();
            self.cluster.mend()?;
        }
        self.await_bound(10)?;
        // The anchor in the store is renewed once a lease.
        sleep(LEASE_TTL * 2);
        self.cluster.kill_coordinator();

        let right = fs::read(&ledger)?;
        let right_anchors = self.bytes_of_anchors()?;
        let kept = ledger.with_file_name("kept");
        if place == 0 {
            fs::rename(&ledger, &kept)?;
        }
        write(&ledger, &old)?;
        if place > 1 {
            put_back(&anchors)?;
        }
        if place > 2 {
            self.put_back_records(&records, &workers)?;
        }
        self.cluster.mend()?;
        let refused = self.expect_refused(&self.cluster.processes.url())?;
        self.cluster.kill_coordinator();
        if place == 0 {
            fs::rename(&kept, &ledger)?;
        } else {
            write(&ledger, &right)?;
        }
        put_back(&right_anchors)?;
        fs::remove_dir_all(&records)?;
        let place =
            ["as another file", "in its file", "with its anchor", "with its anchor and the workers' records"]
                [place as usize];
        let opening = if opened_again { "from an opening before" } else { "from this opening" };
        Ok(format!("old ledger {opening} put back {place}; {refused} bindings refused"))
    }

    fn put_back_records(&mut self, records: &Path, workers: &Path) -> anyhow::Result<()> {
        (0..self.cluster.workers).for_each(|worker| self.cluster.kill_worker(worker));
        fs::remove_dir_all(workers)?;
        copy_folder(records, workers)
    }

    /// Returns the anchors beside the ledger's file.
    pub fn anchors(&self) -> anyhow::Result<Vec<PathBuf>> {
        let names = fs::read_dir(self.environment.data_dir())?.map(|entry| Ok(entry?.path()));
        let paths = names.collect::<anyhow::Result<Vec<_>>>()?.into_iter();
        Ok(paths.filter(|path| path.to_string_lossy().contains("ledger.redb.anchor-")).collect())
    }

    fn bytes_of_anchors(&self) -> anyhow::Result<Vec<(PathBuf, Vec<u8>)>> {
        self.anchors()?.into_iter().map(|path| Ok((path.clone(), fs::read(&path)?))).collect()
    }
}

/// Writes into the files that are there.
fn put_back(anchors: &[(PathBuf, Vec<u8>)]) -> anyhow::Result<()> {
    anchors.iter().try_for_each(|(path, bytes)| write(path, bytes))
}
