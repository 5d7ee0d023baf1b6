//! A launch: all processes that one `mpirun` started, their roles, and how they reach each other.

use std::{mem::ManuallyDrop, sync::Arc, thread, time::Duration};

use anyhow::{Context, bail, ensure};
use proto::{CoordinateRange, ElementType};
use rsmpi::{
    Threading,
    environment::Universe,
    request,
    topology::{Color, Communicator, SimpleCommunicator},
    traits::{CommunicatorCollectives, Root},
};

use crate::{
    Rank,
    deadlines::{TimeLimit, end_launch, end_launch_on_panic},
    handshake::{self, Handshake, Role},
    step_size,
    window::Window,
};

/// How long the other ranks leave it to one of them to report a reason that all of them know. After that each reports it:
/// the one may be gone.
const REPORT_DELAY: Duration = Duration::from_secs(10);

/// The environment variable in which Open MPI puts the number of processes that it started on this node.
const NODE_SIZE: &str = "OMPI_COMM_WORLD_LOCAL_SIZE";

/// The granularity of the parts of a window in bytes: each begins at a whole page.
const PAGE: u64 = 4096;

/// A process in which MPI is started, before it has exchanged anything with others.
pub struct MpiProcess {
    /// Never dropped on the way out of an error: that would wait for the other ranks, which wait for this one.
    universe: ManuallyDrop<Universe>,
    limit: TimeLimit,
}

impl MpiProcess {
    /// Starts MPI. From now on only the calling thread may call it. Fails where MPI is started already, the library does not
    /// support the threads of this process, or the launch fell apart into single ranks.
    pub fn start(limit: TimeLimit) -> anyhow::Result<Self> {
        let started = limit.guard("start MPI", || rsmpi::initialize_with_threading(Threading::Funneled));
        let (universe, threading) = started.context("MPI is started already")?;
        let universe = ManuallyDrop::new(universe);
        end_launch_on_panic(universe.world().rank());
        ensure!(
            threading >= Threading::Funneled,
            "this MPI library allows {threading:?} threading; needed: {:?}",
            Threading::Funneled
        );
        let apart = step_size::apart(universe.world().size() as usize, |name| std::env::var(name).ok());
        if let Some(why) = apart {
            bail!("{why}");
        }
        Ok(Self { universe, limit })
    }

    /// Returns this process's rank among all.
    pub fn rank(&self) -> Rank {
        self.universe.world().rank()
    }

    /// Exchanges handshakes with all processes and forms the launch. Where the processes do not fit together, one rank
    /// reports why and ends the launch. Collective over all processes (docs/mpi.md).
    pub fn agree(self, own: Handshake) -> anyhow::Result<Launch> {
        let Self { universe, limit } = self;
        let world = universe.world();
        let sent = own.encode();
        let mut received = vec![0u8; handshake::BYTES * world.size() as usize];
        request::scope(|scope| {
            let request = world.immediate_all_gather_into(scope, &sent[..], &mut received[..]);
            limit.wait("the ranks of the launch, to send their handshakes", request);
        });
        let handshakes =
            received.chunks(handshake::BYTES).map(Handshake::decode).collect::<Result<Vec<_>, _>>();
        let handshakes = handshakes.unwrap_or_else(|error| end_with_reason(world.rank(), 0, error));
        let root = handshakes.iter().position(|handshake| handshake.role == Role::Noise).unwrap_or(0) as Rank;
        if let Some(difference) = Handshake::disagreement(&handshakes) {
            end_with_reason(world.rank(), root, format!("the ranks can't go together: {difference}"));
        }
        let noise: Vec<Rank> = ranks_of(&handshakes, Role::Noise);
        let shards = handshake::ranges(handshakes[root as usize].dimension, noise.len())
            .unwrap_or_else(|error| end_with_reason(world.rank(), root, error));
        let color = Color::with_value(if own.role == Role::Noise { 1 } else { 2 });
        let all = limit.guard("a communicator for all ranks", || world.duplicate());
        let role = limit.guard("a communicator for the ranks of a role", || world.split_by_color(color));
        let role = role.context("MPI gave no communicator for the ranks of a role")?;
        let window = handshakes
            .iter()
            .any(|handshake| handshake.window_bytes > 0)
            .then(|| NodeWindow::allocate(&all, own.window_bytes, limit));
        let shards = noise.into_iter().zip(shards).collect();
        Ok(Launch { handshakes, shards, root, window, limit, role, all, universe })
    }
}

/// Ends a launch for a reason that all ranks know. Rank `speaker` reports it.
fn end_with_reason(rank: Rank, speaker: Rank, why: impl std::fmt::Display) -> ! {
    if rank != speaker {
        thread::sleep(REPORT_DELAY);
    }
    end_launch(why)
}

fn ranks_of(handshakes: &[Handshake], role: Role) -> Vec<Rank> {
    let ranks = handshakes.iter().zip(0..).filter(|(handshake, _)| handshake.role == role);
    ranks.map(|(_, rank)| rank).collect()
}

/// Processes whose handshakes fit together.
pub struct Launch {
    /// The handshakes in order of the ranks.
    pub handshakes: Vec<Handshake>,
    /// The noise ranks and the coordinates that each owns, in order.
    pub shards: Vec<(Rank, CoordinateRange)>,
    /// The first noise rank, which has the ledger.
    pub root: Rank,
    /// The memory that training ranks of this node lend, where any does.
    pub window: Option<NodeWindow>,
    /// The time to wait for other ranks.
    pub limit: TimeLimit,
    /// A communicator of the processes of this one's role.
    pub role: SimpleCommunicator,
    /// A communicator of all processes, separate from whatever else they exchange.
    pub all: SimpleCommunicator,
    universe: ManuallyDrop<Universe>,
}

impl Launch {
    /// Ends a launch for a reason that all ranks of this role know. The first of them reports it.
    pub fn refuse(&self, why: &str) -> ! {
        end_with_reason(self.role.rank(), 0, why)
    }

    /// Frees the window and ends MPI in this process, which waits for all others to end it too.
    pub fn end(self) {
        let Self { window, role, all, universe, .. } = self;
        if let Some(window) = window {
            window.free();
        }
        drop((role, all));
        drop(ManuallyDrop::into_inner(universe));
    }

    /// Returns this process's rank among all.
    pub fn rank(&self) -> Rank {
        self.all.rank()
    }

    /// Returns whether this is the first noise rank.
    pub fn is_root(&self) -> bool {
        self.rank() == self.root
    }

    /// Returns the training ranks, in order.
    pub fn training_ranks(&self) -> Vec<Rank> {
        ranks_of(&self.handshakes, Role::Training)
    }

    /// Returns the number of ranks on this node, as the launcher reports it; otherwise that of all noise ranks.
    pub fn ranks_on_node(&self) -> usize {
        let reported = std::env::var(NODE_SIZE).ok().and_then(|count| count.parse().ok());
        reported.unwrap_or(self.shards.len()).clamp(1, self.shards.len())
    }

    /// Returns the number of coordinates of the job.
    pub fn dimension(&self) -> u64 {
        self.handshakes[self.root as usize].dimension
    }

    /// Returns the number of rows of the job.
    pub fn iterations(&self) -> u64 {
        self.handshakes[self.root as usize].iterations
    }

    /// Returns the type of the job's rows: f32, or i32 where its plan is on a grid.
    pub fn element(&self) -> ElementType {
        self.handshakes[self.root as usize].element
    }

    /// Sends `bytes` from the first rank of this role to all of the role. `what` names what is waited for.
    pub fn broadcast(&self, what: &str, bytes: &mut [u8]) {
        request::scope(|scope| {
            let request = self.role.process_at_rank(0).immediate_broadcast_into(scope, bytes);
            self.limit.wait(what, request);
        });
    }

    /// Does the same as [`Self::broadcast`] for bytes whose length only the first rank knows.
    pub fn broadcast_any(&self, what: &str, bytes: Vec<u8>) -> Vec<u8> {
        let mut length = (bytes.len() as u64).to_le_bytes();
        self.broadcast(what, &mut length);
        let mut bytes = bytes;
        bytes.resize(u64::from_le_bytes(length) as usize, 0);
        self.broadcast(what, &mut bytes);
        bytes
    }

    /// Returns the `own` bytes of each rank of this role, in order.
    pub fn gather<const N: usize>(&self, what: &str, own: [u8; N]) -> Vec<[u8; N]> {
        let mut all = vec![0u8; N * self.role.size() as usize];
        request::scope(|scope| {
            let request = self.role.immediate_all_gather_into(scope, &own[..], &mut all[..]);
            self.limit.wait(what, request);
        });
        all.as_chunks::<N>().0.to_vec()
    }

    /// Waits for all ranks of this role.
    pub fn barrier(&self, what: &str) {
        self.limit.wait(what, self.role.immediate_barrier());
    }
}

/// The window of one node and the ranks that share it.
pub struct NodeWindow {
    pub(crate) window: Arc<Window>,
    /// Ranks of the launch, in order of their ranks within the node.
    ranks: Vec<Rank>,
    limit: TimeLimit,
    /// The communicator of the node, which lives as long as the window.
    _node: SimpleCommunicator,
}

impl NodeWindow {
    fn allocate(all: &SimpleCommunicator, bytes: u64, limit: TimeLimit) -> Self {
        let node = limit.guard("the processes of each node, to find each other", || all.split_shared(0));
        let own = [all.rank()];
        let mut ranks = vec![0; node.size() as usize];
        request::scope(|scope| {
            let request = node.immediate_all_gather_into(scope, &own[..], &mut ranks[..]);
            limit.wait("the processes of this node, to send their ranks", request);
        });
        let window = limit.guard("a window shared by the processes of this node", || {
            Window::allocate(&node, bytes.next_multiple_of(PAGE) as usize)
        });
        Self { window: Arc::new(window), ranks, limit, _node: node }
    }

    /// Returns the rank of a process within this node; `None` where it is on another node.
    pub fn local(&self, rank: Rank) -> Option<usize> {
        self.ranks.iter().position(|other| *other == rank)
    }

    /// Frees the window. Collective over the node.
    pub fn free(self) {
        let Self { window, limit, .. } = self;
        // Nothing writes any more: every training rank has sent that it is done.
        let window = Arc::into_inner(window);
        limit.guard("the processes of this node, to free the shared window", || window.map(Window::free));
    }
}
