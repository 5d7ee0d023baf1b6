//! The environment of the processes: folders on small disks, network namespaces, clocks that can be set. What this
//! machine cannot provide is left out and listed in `missing`.
//!
//! The files of the harness name each other: the environment lists the faults that are possible in it, and faults act
//! on the environment.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, ensure};

use crate::{
    clocks::sweep_clocks,
    power::{self, Disk},
    resets::can_reset,
};

const FAKETIME: [&str; 3] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
];

/// Size of the disk of the coordinator's folder, unless a round has made it smaller.
pub const DISK_MIB: u64 = 64;

/// The faults that this machine can provide. All of them are undone on drop.
pub struct Environment {
    dir: PathBuf,
    pub has_clock: bool,
    /// The coordinator's folder lies on a disk whose size can be set.
    pub has_disk: bool,
    /// The disks of the coordinator and of the workers, which can lose power.
    pub disks: Option<[Disk; 2]>,
    pub has_network: bool,
    /// Connections can be reset, in any network.
    pub has_resets: bool,
    /// Second and third byte of all addresses: 10.A.B.0/24.
    net: (u8, u8),
    workers: usize,
    /// Faults that cannot be provided here, each with the reason.
    pub missing: Vec<String>,
}

pub fn run(words: &[&str]) -> anyhow::Result<()> {
    let output = Command::new(words[0]).args(&words[1..]).stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("run {}", words.join(" ")))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {}", words.join(" "), said.trim());
    Ok(())
}

impl Environment {
    /// Prepares the environment in `dir`. With `loses_power`, its disks can lose power and their size is fixed.
    pub fn prepare(dir: &Path, workers: usize, loses_power: bool) -> anyhow::Result<Self> {
        let id = std::process::id();
        let net = (200 + (id / 251 % 50) as u8, (id % 251) as u8);
        let mut environment = Self {
            dir: dir.to_owned(),
            has_clock: false,
            has_disk: false,
            disks: None,
            has_network: false,
            has_resets: false,
            net,
            workers,
            missing: Vec::new(),
        };
        fs::create_dir_all(environment.data_dir())?;
        fs::create_dir_all(dir.join("clock"))?;
        fs::create_dir_all(dir.join("ends"))?;
        environment.has_clock = FAKETIME.iter().any(|library| Path::new(library).exists());
        if !environment.has_clock {
            environment
                .missing
                .push("clocks are not set: there is no libfaketime (Debian: libfaketime)".into());
        }
        if loses_power {
            environment.mount_disks_that_lose_power()
        } else {
            environment.mount_small_disk()
        }
        match (0..workers).try_for_each(|worker| environment.connect(worker)) {
            Ok(()) => environment.has_network = true,
            Err(error) => {
                environment.disconnect();
                environment
                    .missing
                    .push(format!("networks are not broken, connections not reset: {error:#}"));
            }
        }
        match can_reset() {
            Ok(()) => environment.has_resets = true,
            Err(error) => environment.missing.push(format!("connections are not reset: {error:#}")),
        }
        Ok(environment)
    }

    fn mount_small_disk(&mut self) {
        let data = self.data_dir().display().to_string();
        let disk = format!("size={DISK_MIB}m,mode=0700");
        match run(&["mount", "-t", "tmpfs", "-o", &disk, "tmpfs", &data]) {
            Ok(()) => self.has_disk = true,
            Err(error) => self.missing.push(format!("disks are not filled: {error:#}")),
        }
    }

    fn mount_disks_that_lose_power(&mut self) {
        match power::disks(&self.dir) {
            Ok(disks) => self.disks = Some(disks),
            Err(error) => self.missing.push(format!("power is not cut: {error:#}")),
        }
    }

    pub fn data_dir(&self) -> PathBuf {
        self.dir.join("coordinator")
    }

    /// Returns the folder of checkpoints and of the ledger's anchor: apart from the ledger, unless its disk can lose power.
    pub fn store(&self) -> PathBuf {
        if self.disks.is_some() { self.data_dir().join("checkpoints") } else { self.dir.join("store") }
    }

    pub fn namespace(&self, worker: usize) -> String {
        format!("rustle-{}-{worker}", std::process::id())
    }

    fn device(&self, worker: usize) -> String {
        format!("rc{}w{worker}", std::process::id())
    }

    /// Host's end, worker's end.
    fn addresses(&self, worker: usize) -> (String, String) {
        let (a, b) = self.net;
        (format!("10.{a}.{b}.{}", worker * 4 + 1), format!("10.{a}.{b}.{}", worker * 4 + 2))
    }

    fn connect(&self, worker: usize) -> anyhow::Result<()> {
        let space = self.namespace(worker);
        let device = self.device(worker);
        let (host, guest) = self.addresses(worker);
        run(&["ip", "netns", "add", &space])?;
        run(&["ip", "link", "add", &device, "type", "veth", "peer", "name", "eth0", "netns", &space])?;
        run(&["ip", "address", "add", &format!("{host}/30"), "dev", &device])?;
        run(&["ip", "link", "set", &device, "up"])?;
        run(&["ip", "-n", &space, "address", "add", &format!("{guest}/30"), "dev", "eth0"])?;
        run(&["ip", "-n", &space, "link", "set", "eth0", "up"])?;
        run(&["ip", "-n", &space, "link", "set", "lo", "up"])?;
        run(&["ip", "-n", &space, "route", "add", "default", "via", &host])?;
        run(&["nsenter", &format!("--net=/run/netns/{space}"), "true"])
    }

    fn disconnect(&self) {
        for worker in 0..self.workers {
            // One that was never made is no concern.
            let _ = run(&["ip", "netns", "delete", &self.namespace(worker)]);
            let _ = run(&["ip", "link", "delete", &self.device(worker)]);
        }
    }

    /// Returns the address on which the coordinator listens.
    pub fn listen(&self) -> String {
        if self.has_network { format!("{}:0", self.addresses(0).0) } else { "127.0.0.1:0".into() }
    }

    /// A script that starts `program` in the place of the role that its flags tell.
    pub fn launcher(&self, program: &Path) -> anyhow::Result<PathBuf> {
        let path = self.dir.join("launch.sh");
        let mut script = "#!/bin/sh\nrole=coordinator\nbefore=\nfor word in \"$@\"; do\n    \
                          [ \"$before\" = --name ] && role=$word\n    before=$word\ndone\n"
            .to_owned();
        script += &format!("export RUSTLE_END_AT={}/$role\n", self.dir.join("ends").display());
        if let Some(library) = FAKETIME.iter().find(|library| Path::new(library).exists()) {
            let clocks = self.dir.join("clock");
            script += &format!(
                "export LD_PRELOAD={library} FAKETIME_TIMESTAMP_FILE={}/$role FAKETIME_NO_CACHE=1\n\
                 export FAKETIME_DONT_FAKE_MONOTONIC=1 DONT_FAKE_MONOTONIC=1 FAKETIME_DONT_RESET=1\n",
                clocks.display()
            );
        }
        let program = program.display();
        if self.has_network {
            script += "case $role in\n";
            for worker in 0..self.workers {
                let space = self.namespace(worker);
                let guest = self.addresses(worker).1;
                // Its network alone: with mounts of its own it would hold disks that others unmount.
                script += &format!(
                    "worker-{worker}) exec nsenter --net=/run/netns/{space} {program} \"$@\" --listen {guest}:0 \
                     --insecure-listen ;;\n"
                );
            }
            script += &format!("*) exec {program} \"$@\" --insecure-listen ;;\nesac\n");
        } else {
            script += &format!("exec {program} \"$@\"\n");
        }
        fs::write(&path, script)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        for role in (0..self.workers).map(|worker| format!("worker-{worker}")).chain(["coordinator".into()]) {
            self.set_clock(&role, 0)?;
        }
        Ok(path)
    }

    /// MiB that the files in the coordinator's folder take.
    pub fn disk_used(&self) -> anyhow::Result<u64> {
        let found = rustix::fs::statvfs(self.data_dir())?;
        Ok(((found.f_blocks - found.f_bfree) * found.f_frsize).div_ceil(1 << 20))
    }

    /// Resizes the disk. It must hold the present files.
    pub fn resize_disk(&self, mib: u64) -> anyhow::Result<()> {
        let data = self.data_dir().display().to_string();
        run(&["mount", "-o", &format!("remount,size={mib}m"), &data])
    }

    /// Shifts the wall clock of a role by so many seconds from now on. Its monotonic clock is not changed.
    pub fn set_clock(&self, role: &str, seconds: i64) -> anyhow::Result<()> {
        let file = self.dir.join("clock").join(role);
        let draft = self.dir.join("clock.new");
        fs::write(&draft, format!("{seconds:+}\n"))?;
        fs::rename(draft, file).context("set a clock")
    }

    /// The role's process ends where it comes to that point, after it has gone through so many times.
    pub fn end_at(&self, role: &str, point: &str, before: u64) -> anyhow::Result<()> {
        let file = self.dir.join("ends").join(role);
        let draft = self.dir.join("ends.new");
        fs::write(&draft, format!("{point} {before}\n"))?;
        fs::rename(draft, file).context("ask for an end")
    }

    /// Disarms all failpoints.
    pub fn end_nobody(&self) -> anyhow::Result<()> {
        for file in fs::read_dir(self.dir.join("ends"))? {
            // It may have been taken meanwhile.
            let _ = fs::remove_file(file?.path());
        }
        Ok(())
    }

    /// Everything sent to the worker is lost.
    pub fn deafen(&self, worker: usize) -> anyhow::Result<()> {
        run(&["ip", "route", "add", "blackhole", &format!("{}/32", self.addresses(worker).1)])
    }

    /// Everything that the worker sends is lost.
    pub fn silence(&self, worker: usize) -> anyhow::Result<()> {
        let space = self.namespace(worker);
        // The coordinator's address, and where the jobs ask from.
        for host in [self.addresses(0).0, self.addresses(worker).0] {
            run(&["ip", "-n", &space, "route", "replace", "blackhole", &format!("{host}/32")])?;
        }
        Ok(())
    }

    /// One megabit a second, both ways.
    pub fn slow(&self, worker: usize) -> anyhow::Result<()> {
        let space = self.namespace(worker);
        let device = self.device(worker);
        let rate = ["root", "tbf", "rate", "1mbit", "burst", "32kbit", "latency", "400ms"];
        run(&[&["tc", "qdisc", "replace", "dev", &device][..], &rate].concat())?;
        run(&[&["tc", "-n", &space, "qdisc", "replace", "dev", "eth0"][..], &rate].concat())
    }

    pub fn heal(&self, worker: usize) {
        let space = self.namespace(worker);
        let device = self.device(worker);
        let (host, guest) = self.addresses(worker);
        // What was not broken needs no healing.
        let _ = run(&["ip", "route", "delete", "blackhole", &format!("{guest}/32")]);
        for host in [self.addresses(0).0, host] {
            let _ = run(&["ip", "-n", &space, "route", "delete", "blackhole", &format!("{host}/32")]);
        }
        let _ = run(&["tc", "qdisc", "delete", "dev", &device, "root"]);
        let _ = run(&["tc", "-n", &space, "qdisc", "delete", "dev", "eth0", "root"]);
    }
}

impl Drop for Environment {
    fn drop(&mut self) {
        if self.has_network {
            self.disconnect();
        }
        if self.has_disk {
            let _ = run(&["umount", "--lazy", &self.data_dir().display().to_string()]);
        }
        if self.has_clock {
            sweep_clocks(Path::new("/dev/shm"), |process| Path::new("/proc").join(process).exists());
        }
    }
}
