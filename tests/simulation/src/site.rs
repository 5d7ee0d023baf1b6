//! Where a ledger is: a host that runs a coordinator, and the volume that it has its ledger on.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use coordinator::TestProbe;
use ledger::Ledger;

use crate::disk::Disk;

/// What the ledger of a site is, beside the one that has all that was acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// That one.
    Current,
    /// A copy, or an old one in its place: it must be found to be that, and binds nothing.
    Copy,
    /// A clone of the volume, with all that distinguishes a file from its copies: it binds once nothing else does.
    Clone,
    /// A copy that was adopted: it binds with noise of its own.
    Adopted,
    /// The file was deleted, or there never was one.
    Missing,
}

/// A disk with a ledger's file, and a folder with the anchor beside it. Clones are the same volume.
#[derive(Clone)]
pub struct Volume {
    pub disk: Disk,
    folder: PathBuf,
    /// The anchor beside the file takes part. A clone of a volume has one of its own, which says nothing of the original.
    pub has_anchor: bool,
}

impl Volume {
    /// Makes a folder. The file in it is empty: it stands for the ledger's, which is on the disk.
    pub fn new(folder: PathBuf, disk: Disk) -> io::Result<Self> {
        fs::create_dir(&folder)?;
        let volume = Self { disk, folder, has_anchor: true };
        fs::write(volume.path(), "")?;
        Ok(volume)
    }

    /// Returns the path of the ledger.
    pub fn path(&self) -> PathBuf {
        self.folder.join("ledger.redb")
    }

    fn hidden(&self) -> PathBuf {
        self.folder.join("hidden")
    }

    /// Moves the file away, and puts another one in its place, unless it is deleted.
    pub fn hide_file(&self, is_deleted: bool) -> io::Result<()> {
        fs::rename(self.path(), self.hidden())?;
        if is_deleted { Ok(()) } else { fs::write(self.path(), "") }
    }

    /// Puts the file back that was moved away, if one was.
    pub fn put_file_back(&self) -> io::Result<()> {
        if self.hidden().exists() { fs::rename(self.hidden(), self.path()) } else { Ok(()) }
    }

    fn anchors(&self) -> io::Result<Vec<PathBuf>> {
        let of_ledger = |path: &PathBuf| path.to_string_lossy().contains(".anchor-");
        let paths = fs::read_dir(&self.folder)?.map(|entry| entry.map(|entry| entry.path()));
        Ok(paths.collect::<io::Result<Vec<_>>>()?.into_iter().filter(of_ledger).collect())
    }

    /// Returns the entries of all chains by the anchor beside the file; `None` where there is none.
    pub fn height(&self) -> Option<u64> {
        let anchor = fs::read(self.anchors().ok()?.first()?).ok()?;
        height_in(&anchor)
    }

    /// Copies the anchors beside the file to another folder.
    pub fn copy_anchors(&self, to: &Self) -> io::Result<()> {
        for anchor in self.anchors()? {
            fs::copy(&anchor, to.folder.join(anchor.file_name().unwrap_or_default()))?;
        }
        Ok(())
    }

    /// Hides the random name of the folder: equal seeds have equal texts.
    pub fn without_folder(&self, text: &str) -> String {
        let parent = self.folder.parent().unwrap_or(Path::new("/"));
        text.replace(&*parent.to_string_lossy(), "")
    }
}

/// Reads the height in an anchor: a number, or a text of digits.
pub fn height_in(anchor: &[u8]) -> Option<u64> {
    let anchor: serde_json::Value = serde_json::from_slice(anchor).ok()?;
    let height = &anchor["height"];
    height.as_u64().or_else(|| height.as_str()?.parse().ok())
}

/// A host, and what its coordinator has open.
pub struct Site {
    pub host: &'static str,
    volume: Mutex<Volume>,
    standing: Mutex<Standing>,
    ledger: Mutex<Option<Ledger>>,
    probe: Mutex<Option<TestProbe>>,
    is_stopped: AtomicBool,
}

impl Site {
    pub fn new(host: &'static str, volume: Volume, standing: Standing) -> Self {
        Self {
            host,
            volume: Mutex::new(volume),
            standing: Mutex::new(standing),
            ledger: Mutex::default(),
            probe: Mutex::default(),
            is_stopped: AtomicBool::new(false),
        }
    }

    pub fn volume(&self) -> Volume {
        lock(&self.volume).clone()
    }

    pub fn disk(&self) -> Disk {
        self.volume().disk
    }

    /// Attaches another volume; returns the one before.
    pub fn attach(&self, volume: Volume) -> Volume {
        std::mem::replace(&mut *lock(&self.volume), volume)
    }

    pub fn standing(&self) -> Standing {
        *lock(&self.standing)
    }

    pub fn set_standing(&self, standing: Standing) {
        *lock(&self.standing) = standing;
    }

    /// The ledger that the running coordinator has open.
    pub fn ledger(&self) -> MutexGuard<'_, Option<Ledger>> {
        lock(&self.ledger)
    }

    /// The probe of the running coordinator.
    pub fn probe(&self) -> MutexGuard<'_, Option<TestProbe>> {
        lock(&self.probe)
    }

    /// The coordinator has ended by itself.
    pub fn stopped(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    pub fn take_stopped(&self) -> bool {
        self.is_stopped.swap(false, Ordering::Relaxed)
    }

    /// The process is gone, with what it had open.
    pub fn closed(&self) {
        drop(self.ledger().take());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
