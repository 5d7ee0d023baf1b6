//! Operations on the folder of a cluster that does not run, which is started again after them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use tempfile::TempDir;
use tests::{program, start_with};

use super::{check_calm, coordinator_flags, start_in, train};

/// Does the operation on the folder of a job's first rows, which returns the folder to start in, and checks that all is well.
#[track_caller]
fn calm_after(operation: impl FnOnce(&Path) -> PathBuf) {
    let outer = TempDir::new().unwrap();
    let folder = outer.path().join("run");
    let cluster = start_in(&folder);
    train(&cluster);
    drop(cluster);
    check_calm(&start_in(&operation(&folder)), &[]);
}

/// Returns all files in a folder and the folders below.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_below(&path));
        } else if path.is_file() {
            files.push(path);
        }
    }
    files
}

#[test]
fn a_cluster_that_is_started_again() {
    calm_after(Path::to_owned);
}

#[test]
fn a_folder_that_is_moved() {
    calm_after(|folder| {
        let moved = folder.with_file_name("moved");
        fs::rename(folder, &moved).unwrap();
        moved
    });
}

#[test]
fn a_folder_behind_a_link() {
    calm_after(|folder| {
        let link = folder.with_file_name("link");
        symlink(folder, &link).unwrap();
        link
    });
}

#[test]
fn a_container_that_is_built_anew() {
    let outer = TempDir::new().unwrap();
    let folder = outer.path().join("run");
    let cluster = start_in(&folder);
    train(&cluster);
    drop(cluster);
    let rebuilt = outer.path().join("rustle");
    fs::copy(program(), &rebuilt).unwrap();
    let flags = coordinator_flags(&folder);
    let cluster = start_with(2, |options| {
        options.dir = folder;
        options.program = rebuilt;
        options.coordinator_flags = flags;
    });
    check_calm(&cluster, &[]);
}

#[test]
fn workers_whose_folders_are_emptied() {
    calm_after(|folder| {
        fs::remove_dir_all(folder.join("workers")).unwrap();
        folder.to_owned()
    });
}

#[test]
fn times_of_files_that_are_set_anew() {
    calm_after(|folder| {
        let files = files_below(folder);
        assert!(files.len() > 2, "{files:?}");
        for path in files {
            let file = fs::OpenOptions::new().append(true).open(path).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000)).unwrap();
        }
        folder.to_owned()
    });
}

#[test]
fn a_backup_by_hard_links() {
    calm_after(|folder| {
        let backup = folder.with_file_name("backup");
        fs::create_dir(&backup).unwrap();
        for (number, file) in files_below(folder).iter().enumerate() {
            fs::hard_link(file, backup.join(number.to_string())).unwrap();
        }
        folder.to_owned()
    });
}

#[test]
fn a_ledger_that_other_programs_read() {
    calm_after(|folder| {
        let mut backup = Command::new(program());
        backup.args(["ledger", "backup", "--data-dir"]).arg(folder.join("coordinator")).arg("--out");
        let output = backup.arg(folder.with_file_name("copy.redb")).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        folder.to_owned()
    });
}

/// The test of these tests: a copy is no ordinary operation.
#[test]
#[should_panic(expected = "LedgerCopied")]
fn a_folder_that_is_copied() {
    calm_after(|folder| {
        let copy = folder.with_file_name("copy");
        for file in files_below(folder) {
            let target = copy.join(file.strip_prefix(folder).unwrap());
            fs::create_dir_all(target.parent().unwrap()).unwrap();
            fs::copy(file, target).unwrap();
        }
        copy
    });
}
