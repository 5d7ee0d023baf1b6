//! What this machine must allow, and how Slurm is set up on it.

use std::{fs, path::Path, process::Command};

use tests::ports::free_port;

pub const NODES: [&str; 2] = ["n0", "n1"];

/// A node's processes see no others, so that all of them end with the first; and Open MPI takes nodes of one name for one.
pub const NODE: &str = "mount -t tmpfs none /dev/shm && hostname \"$0\" && exec \"$@\"";
pub const APART: [&str; 6] = ["unshare", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"];

/// Why there can be no Slurm here.
pub fn impossible() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("it takes root".to_owned());
    }
    let programs = ["munged", "slurmctld", "slurmd", "sbatch", "setpriv", "unshare"];
    let is_there =
        |name: &&str| Command::new("which").arg(name).output().is_ok_and(|found| found.status.success());
    if let Some(missing) = programs.iter().find(|name| !is_there(name)) {
        return Some(format!("{missing} is missing (tests/setup/slurm.sh)"));
    }
    let tried =
        Command::new(APART[0]).args(&APART[1..]).args(["sh", "-c", NODE, "n0", "true"]).output().unwrap();
    (!tried.status.success()).then(|| String::from_utf8_lossy(&tried.stderr).into_owned())
}

/// Two nodes that claim more processors than there may be.
pub fn configuration(folder: &Path) -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let host = host.trim();
    let folder = folder.display();
    let [controller, first, second] = [(); 3].map(|()| free_port());
    format!(
        "ClusterName=rustle
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=60
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=bf_interval=1,sched_interval=1
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=3
NodeName=n0 NodeAddr=127.0.0.1 Port={first} CPUs=8 State=UNKNOWN
NodeName=n1 NodeAddr=127.0.0.1 Port={second} CPUs=8 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:8
"
    )
}
