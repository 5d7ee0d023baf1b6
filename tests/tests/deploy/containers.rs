//! The container's root filesystem, made by the script that the Containerfile runs, and the program in it as its user.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tests::program;

use super::{path, read, run};

const USER: &str = "65532:65532";
/// A program, the C library and certificates.
const MOST_BYTES: u64 = 80 << 20;

fn rootfs(dir: &TempDir) -> String {
    let script = path("deploy/containers/rootfs.sh").display().to_string();
    let root = dir.path().join("root").display().to_string();
    run(&script, &[&program().display().to_string(), &root]);
    root
}

/// Returns the bytes of all files below a folder.
fn bytes(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    let size = |entry: std::fs::DirEntry| {
        if entry.file_type().unwrap().is_dir() {
            bytes(&entry.path())
        } else {
            entry.metadata().unwrap().len()
        }
    };
    entries.map(size).sum()
}

/// `chroot` takes root, which a user has in a namespace of its own; there it is the only user that there is.
fn inside(root: &str, args: &[&str]) -> Command {
    let is_root = run("id", &["-u"]).trim() == "0";
    let mut command = Command::new(if is_root { "chroot" } else { "unshare" });
    if is_root {
        command.args([&format!("--userspec={USER}"), root])
    } else {
        command.args(["--user", "--map-root-user", "chroot", root])
    };
    // Nothing of this environment but where the tools lie.
    command.arg("/usr/bin/rustle").args(args).env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_program_runs_from_the_containers_root_as_its_user() {
    let dir = TempDir::new().unwrap();
    let root = rootfs(&dir);
    assert!(bytes(Path::new(&root)) < MOST_BYTES, "{} bytes", bytes(Path::new(&root)));
    for shell in ["bin/sh", "usr/bin/sh", "bin/bash"] {
        assert!(!Path::new(&root).join(shell).exists(), "{shell} is in the image");
    }
    let version = inside(&root, &["--version"]).output().unwrap();
    assert!(version.status.success(), "{}", String::from_utf8_lossy(&version.stderr));

    let begun = inside(&root, &["ledger", "init", "--data-dir", "/var/lib/rustle/data"]).output().unwrap();
    assert!(begun.status.success(), "{}", String::from_utf8_lossy(&begun.stderr));
    let flags = ["coordinator", "--listen", "127.0.0.1:0", "--checkpoint-url", "none", "--data-dir"];
    let folder = ["/var/lib/rustle/data", "--ready-file", "/var/lib/rustle/ready.json"];
    let mut command = inside(&root, &[&flags[..], &folder[..]].concat());
    let _running = Running(command.stderr(Stdio::null()).spawn().unwrap());
    let ready = Path::new(&root).join("var/lib/rustle/ready.json");
    let deadline = Instant::now() + Duration::from_secs(30);
    let addresses = loop {
        match std::fs::read(&ready) {
            Ok(text) => break serde_json::from_slice::<serde_json::Value>(&text).unwrap(),
            Err(_) => assert!(Instant::now() < deadline, "it does not listen after 30 s"),
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    tests::get(addresses["metrics"].as_str().unwrap(), "/readyz");
}

/// Without an engine the file itself is only read.
#[test]
fn the_containerfile_ends_without_root() {
    let file = read("deploy/containers/Containerfile");
    let last = file.rsplit_once("\nFROM ").unwrap().1;
    assert!(last.starts_with("scratch\n") && last.contains(&format!("\nUSER {USER}\n")), "{last}");
    assert!(file.contains("deploy/containers/rootfs.sh"));
    let toolchain = read("rust-toolchain.toml");
    let version = file.lines().find_map(|line| line.strip_prefix("ARG RUST=")).unwrap();
    assert!(toolchain.contains(&format!("\"{version}")), "{version} is not of {toolchain}");
}
