//! A Slurm on this machine: munge, a controller, and two nodes that each have a name, processes and shared memory of
//! their own. It ends with the test, however that ends.

use std::{
    fmt::Write,
    fs::{self, File},
    io::Read,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use tempfile::TempDir;

use crate::site::{APART, NODE, NODES, configuration, impossible};

/// What takes longer hangs. Below the two minutes that ranks wait for each other.
const LONGEST: Duration = Duration::from_secs(100);

pub struct Slurm {
    folder: TempDir,
    children: Vec<Child>,
}

impl Slurm {
    /// `None`, said loudly, where there can be none.
    pub fn start() -> Option<Self> {
        Self::start_with("")
    }

    /// Starts a cluster with more lines in slurm.conf.
    pub fn start_with(settings: &str) -> Option<Self> {
        if let Some(why) = impossible() {
            eprintln!("SKIPPED: nothing is tried under Slurm here: {why}");
            return None;
        }
        // Paths of sockets are short.
        let folder = tempfile::Builder::new().prefix("slurm").tempdir_in("/tmp").unwrap();
        // munged insists that others could reach its socket.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let mut slurm = Self { folder, children: Vec::new() };
        slurm.write_files(settings);
        let path = |name: &str| slurm.path(name).display().to_string();
        let munge = |flag: &str, file: &str| format!("--{flag}={}", path(file));
        let munged = [
            "munged".to_owned(),
            "--foreground".to_owned(),
            munge("socket", "munge.socket"),
            munge("key-file", "munge.key"),
            munge("pid-file", "munge.pid"),
            munge("log-file", "munge.log"),
            munge("seed-file", "munge.seed"),
        ];
        slurm.spawn("munged", &munged);
        slurm.until("munged listens", |slurm| slurm.path("munge.socket").exists());
        let conf = slurm.conf();
        slurm.spawn("slurmctld", &["slurmctld", "-D", "-f", &conf].map(str::to_owned));
        for node in NODES {
            let conf = slurm.path(node).join("slurm.conf").display().to_string();
            let daemon = ["sh", "-c", NODE, node, "slurmd", "-D", "-N", node, "-f", &conf];
            let words: Vec<_> = APART.iter().chain(&daemon).map(|word| word.to_string()).collect();
            slurm.spawn(node, &words);
        }
        slurm.until("both nodes are idle", |slurm| {
            let states = slurm.command("sinfo", &["-h", "-N", "-o", "%T"]).output().unwrap();
            String::from_utf8_lossy(&states.stdout).lines().filter(|state| *state == "idle").count() == 2
        });
        Some(slurm)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn conf(&self) -> String {
        self.path("slurm.conf").display().to_string()
    }

    fn write_files(&self, settings: &str) {
        // Who has it is root on both nodes.
        let mut key = [0; 128];
        File::open("/dev/urandom").unwrap().read_exact(&mut key).unwrap();
        fs::write(self.path("munge.key"), key).unwrap();
        fs::set_permissions(self.path("munge.key"), fs::Permissions::from_mode(0o400)).unwrap();
        fs::create_dir(self.path("state")).unwrap();
        let conf = configuration(self.folder.path()) + settings;
        fs::write(self.path("slurm.conf"), &conf).unwrap();
        fs::write(self.path("cgroup.conf"), "").unwrap();
        for node in NODES {
            // A folder of its own, as both would make the same files for the ranks of a step.
            let own = self.path(node);
            let sockets = own.join("tmp");
            fs::create_dir_all(&sockets).unwrap();
            fs::create_dir(self.path(&format!("spool.{node}"))).unwrap();
            fs::write(own.join("slurm.conf"), &conf).unwrap();
            fs::write(own.join("cgroup.conf"), "").unwrap();
            fs::write(own.join("mpi.conf"), format!("PMIxCliTmpDirBase={}\n", sockets.display())).unwrap();
        }
    }

    fn spawn(&mut self, name: &str, words: &[String]) {
        let out = File::create(self.path(&format!("{name}.out"))).unwrap();
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).args(words).stdin(Stdio::null());
        command.stdout(out.try_clone().unwrap()).stderr(out);
        self.children.push(command.spawn().unwrap());
    }

    /// One of Slurm's own commands, on this cluster.
    fn command(&self, name: &str, words: &[&str]) -> Command {
        let mut command = Command::new(name);
        for (variable, _) in std::env::vars().filter(|(name, _)| name.starts_with("SLURM_")) {
            command.env_remove(variable);
        }
        command.args(words).env("SLURM_CONF", self.conf()).env("OMPI_MCA_btl_tcp_if_include", "lo");
        command
    }

    #[track_caller]
    fn run(&self, name: &str, words: &[&str]) -> String {
        said(self.command(name, words).output().unwrap(), name)
    }

    /// Submits a script of deploy/slurm with `options` of sbatch, environment variables, and arguments.
    #[track_caller]
    pub fn submit(
        &self,
        options: &str,
        script: &str,
        variables: &[(&str, String)],
        words: &[String],
    ) -> SlurmJob<'_> {
        let out = self.path("job-%j.out").display().to_string();
        let mut command = self.command("sbatch", &["--parsable", "--output", &out]);
        command.args(options.split_whitespace()).arg(scripts().join(script)).args(words);
        command.env("RUSTLE_SLURM", scripts()).envs(variables.iter().map(|(name, value)| (name, value)));
        let id = said(command.output().unwrap(), "sbatch").trim().to_owned();
        SlurmJob { slurm: self, id }
    }

    /// An operator's word, minutes before Slurm would know.
    pub fn is_down(&self, node: &str) {
        self.run("scontrol", &["update", &format!("NodeName={node}"), "State=DOWN", "Reason=lost"]);
    }

    /// All of a node at once, as where its power goes.
    pub fn lose(&self, node: &str) {
        let index = NODES.iter().position(|it| *it == node).unwrap();
        // The nodes were started last. What a node runs ends with its first process.
        let child = &self.children[self.children.len() - NODES.len() + index];
        rustix::process::kill_process(rustix::process::Pid::from_child(child), rustix::process::Signal::KILL)
            .unwrap();
    }

    #[track_caller]
    fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + LONGEST;
        while !is_so(self) {
            if Instant::now() >= deadline {
                let jobs = self.run("scontrol", &["show", "jobs", "--oneliner"]);
                panic!("it is not so that {what}:\n{jobs}\n{}\n{}", processes(), self.logs());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn logs(&self) -> String {
        let mut all = String::new();
        for entry in fs::read_dir(self.folder.path()).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.extension().is_some_and(|extension| extension == "out") {
                let text = fs::read(&path).unwrap();
                writeln!(all, "── {}\n{}", path.display(), String::from_utf8_lossy(&text)).unwrap();
            }
        }
        all
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Whose job hangs, and in what.
fn processes() -> String {
    let all = Command::new("ps").args(["-eo", "pid,ppid,stat,wchan:20,etimes,args:200"]).output().unwrap();
    let all = String::from_utf8_lossy(&all.stdout);
    let of_slurm: Vec<_> =
        all.lines().filter(|line| line.contains("slurm") || line.contains("srun")).collect();
    of_slurm.join("\n")
}

pub fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/slurm")
}

#[track_caller]
fn said(output: Output, name: &str) -> String {
    assert!(output.status.success(), "{name}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A job that Slurm has.
pub struct SlurmJob<'a> {
    slurm: &'a Slurm,
    id: String,
}

impl SlurmJob<'_> {
    pub fn output(&self) -> String {
        let text = fs::read(self.slurm.path(&format!("job-{}.out", self.id))).unwrap_or_default();
        String::from_utf8_lossy(&text).into_owned()
    }

    pub fn shown(&self, field: &str) -> String {
        self.shown_of(0, field)
    }

    /// A component's number: those of a heterogeneous job follow on each other.
    fn component(&self, component: u32) -> String {
        (self.id.parse::<u32>().unwrap() + component).to_string()
    }

    fn shown_of(&self, component: u32, field: &str) -> String {
        let all = self.slurm.run("scontrol", &["show", "job", "--oneliner", &self.component(component)]);
        let value = all.split_whitespace().find_map(|word| word.strip_prefix(field)?.strip_prefix('='));
        value.unwrap_or_else(|| panic!("no {field}: {all}")).to_owned()
    }

    #[track_caller]
    pub fn wait_for(&self, what: &str, is_so: impl Fn() -> bool) {
        let gone = ["FAILED", "COMPLETED", "CANCELLED", "TIMEOUT"];
        self.slurm.until(what, |slurm| {
            let so = is_so();
            assert!(so || !gone.contains(&&*self.shown("JobState")), "not {what}:\n{}", slurm.logs());
            so
        });
    }

    #[track_caller]
    pub fn ends(&self, state: &str) {
        let going = ["PENDING", "RUNNING", "COMPLETING"];
        let ends = format!("job {} ends", self.id);
        self.slurm.until(&ends, |_| !going.contains(&&*self.shown("JobState")));
        assert_eq!(self.shown("JobState"), state, "{}", self.slurm.logs());
    }

    /// Sends the signal that Slurm sends before the time limit, by `--signal=B:USR1@…`.
    pub fn warn(&self) {
        self.slurm.run("scancel", &["--batch", "--signal=USR1", &self.id]);
    }

    /// What Slurm does where it needs the nodes: SIGTERM to all processes, and later SIGKILL.
    pub fn preempt(&self) {
        self.slurm.run("scontrol", &["requeuehold", &self.id]);
        self.slurm.run("scontrol", &["release", &self.id]);
    }

    pub fn cancel(&self) {
        self.slurm.run("scancel", &[&self.id]);
    }

    /// SIGKILL to the ranks of a step, at once.
    pub fn kill_ranks(&self, step: u32) {
        self.slurm.run("scancel", &["--signal=KILL", &format!("{}.{step}", self.id)]);
    }

    /// Waits until the job is queued again, changes it, and has it start without the usual delay. `changed`: components
    /// of a heterogeneous job, counted from 0, and what is new of them.
    #[track_caller]
    pub fn starts_again(&self, restarts: u32, changed: &[(u32, &str)]) {
        let components = 0..=changed.iter().map(|(component, _)| *component).max().unwrap_or(0);
        self.wait_for("the job is queued again", || {
            let is_queued = |component| self.shown_of(component, "JobState") == "PENDING";
            self.shown("Restarts") == restarts.to_string() && components.clone().all(is_queued)
        });
        for (component, change) in changed {
            let id = format!("JobId={}", self.component(*component));
            let words: Vec<&str> = ["update", &id].into_iter().chain(change.split(' ')).collect();
            self.slurm.run("scontrol", &words);
        }
        // Nodes refuse what is signed within the second in which they ended the run before.
        std::thread::sleep(Duration::from_secs(2));
        for component in components {
            let id = format!("JobId={}", self.component(component));
            let output = self.slurm.command("scontrol", &["update", &id, "StartTime=now"]).output().unwrap();
            // One that waited for a lost node may start by itself, up to the moment of this command.
            if self.shown_of(component, "JobState") == "PENDING" {
                said(output, "scontrol");
            }
        }
    }
}
