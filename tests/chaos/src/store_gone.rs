//! A checkpoint store that keeps the ledger's anchor and can't be reached: without its lease nothing is bound.

use std::{fs, path::Path, thread::sleep};

use crate::{copies::BEYOND_LEASE, environment::run, history::Violation, nemesis::Nemesis};

impl Nemesis<'_> {
    /// The store is gone, or can't be written to, for longer than the lease. Comes back as it was.
    pub fn store_gone(&mut self, turn: u64) -> anyhow::Result<String> {
        let store = self.environment.store();
        let is_read_only = !turn.is_multiple_of(2) && make_read_only(&store).is_ok();
        let gone = store.with_file_name("store.gone");
        if !is_read_only {
            fs::rename(&store, &gone)?;
            // So that nothing makes it anew.
            fs::write(&store, "")?;
        }
        sleep(BEYOND_LEASE);
        let tried = self.try_to_bind(&self.cluster.processes.url());
        if is_read_only {
            run(&["umount", &store.display().to_string()])?;
        } else {
            fs::remove_file(&store)?;
            fs::rename(&gone, &store)?;
        }
        let answers = tried?;
        let kinds: Vec<_> = answers.iter().filter_map(|answer| answer.err()).collect();
        kinds.iter().for_each(|kind| self.figures.refused_on_copy(kind));
        if kinds.len() < answers.len() {
            let text = format!("rows were bound without a lease of the anchor: {answers:?}");
            self.session.history.violation(Violation::Doubled, text);
        }
        let how = if is_read_only { "read-only" } else { "gone" };
        Ok(format!("anchor's store {how}; {} bindings refused", kinds.len()))
    }
}

/// Mounts the folder over itself, read-only: permissions bind no one who may do everything.
fn make_read_only(folder: &Path) -> anyhow::Result<()> {
    let folder = folder.display().to_string();
    run(&["mount", "--bind", &folder, &folder])?;
    let made = run(&["mount", "-o", "remount,bind,ro", &folder]);
    if made.is_err() {
        run(&["umount", &folder])?;
    }
    made
}
