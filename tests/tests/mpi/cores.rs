//! Noise ranks hold the key, and a launch that goes wrong ends them by a signal that makes cores.

use std::fs;

use plan::Mechanism;
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use tests::small_plan;

use crate::launch::{Job, Running};

#[test]
fn no_rank_that_holds_the_key_may_leave_a_core() {
    // Inherited: what ranks may do with cores is this, unless they see to it themselves.
    let most = getrlimit(Resource::Core).maximum;
    setrlimit(Resource::Core, Rlimit { current: most, maximum: most }).unwrap();
    let job = Job::new(&small_plan(Mechanism::Identity, 1 << 31), 1_300);
    let running = Running::start(&[job.noise(2, "--sha256 --checkpoint-every 100")]);
    running.wait_for("checkpoint written");
    let ranks = job.processes();
    assert_eq!(ranks.len(), 2, "{ranks:?}");
    for rank in ranks {
        let limits = fs::read_to_string(format!("/proc/{rank}/limits")).unwrap();
        let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
        let [soft, hard] = [4, 5].map(|at| core.split_whitespace().nth(at).unwrap());
        assert_eq!((soft, hard), ("0", "0"), "{core}");
        let parts = fs::read_to_string(format!("/proc/{rank}/coredump_filter")).unwrap();
        assert_eq!(parts.trim(), "00000000", "a program that is given cores gets no memory");
    }
    running.signal(Signal::USR1);
    running.end().answer();
}
