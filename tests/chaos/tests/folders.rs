//! Tests that a process syncs each folder in which it creates a name, which makes the name durable: the system reports
//! which folders it opens. That a failed sync is an error is tested in `durable-io/src/files.rs`.

use std::{fs, mem::MaybeUninit, path::Path};

use noise_worker::release_log::ReleaseLog;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};

/// Returns in order the names created in the folder during `work`, and `None` for each time that the folder is opened.
fn seen_in(folder: &Path, work: impl FnOnce()) -> Vec<Option<String>> {
    let watch = inotify::init(CreateFlags::NONBLOCK).expect("inotify");
    inotify::add_watch(&watch, folder, WatchFlags::CREATE | WatchFlags::OPEN).expect("a watch");
    work();
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut seen = Vec::new();
    let mut events = Reader::new(watch, &mut buffer);
    while let Ok(event) = events.next() {
        match event.file_name() {
            None if event.events().contains(ReadFlags::OPEN | ReadFlags::ISDIR) => seen.push(None),
            Some(name) if event.events().contains(ReadFlags::CREATE) => {
                seen.push(Some(name.to_string_lossy().into_owned()));
            }
            _ => {}
        }
    }
    seen
}

#[test]
fn the_folder_of_a_workers_record_is_opened_once_the_record_has_its_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let open = || drop(ReleaseLog::open(Some(folder.path())).expect("a record"));
    assert_eq!(seen_in(folder.path(), open), [Some("released.log".to_owned()), None]);
    // The process that made it may have ended before.
    assert_eq!(seen_in(folder.path(), open), [None]);
    assert_eq!(fs::read_dir(folder.path()).expect("its files").count(), 1);
}
