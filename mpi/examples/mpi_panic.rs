//! A launch in which rank 1 panics, on MPI's thread or on another, while the others wait for it: the whole launch must
//! end, and report why. `make test-mpi` runs it.

use std::time::Duration;

use rsmpi::{topology::Communicator, traits::CommunicatorCollectives};
use rustle_mpi::{deadlines::TimeLimit, launch::MpiProcess};

fn main() -> anyhow::Result<()> {
    let started = MpiProcess::start(TimeLimit(Duration::from_secs(60)))?;
    let elsewhere = std::env::args().nth(1).is_some_and(|thread| thread == "other");
    if started.rank() == 1 {
        let fail = || panic!("a rank that fails on purpose");
        if elsewhere { drop(std::thread::spawn(fail).join()) } else { fail() }
    }
    rsmpi::topology::SimpleCommunicator::world().barrier();
    anyhow::ensure!(rsmpi::topology::SimpleCommunicator::world().size() > 1, "run this by mpirun -n 3");
    Ok(())
}
