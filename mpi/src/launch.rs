//! A launch: all processes that one `mpirun` started, who they are, and how they reach each other.

use std::{mem::ManuallyDrop, sync::Arc, thread, time::Duration};

use anyhow::{Context, bail, ensure};
use mpi::{
    Rank, Threading,
    environment::Universe,
    request,
    topology::{Color, Communicator, SimpleCommunicator},
    traits::{CommunicatorCollectives, Root},
};
use proto::CoordinateRange;

use super::{
    hello::{self, Hello, Role},
    limit::{Limit, end_launch, end_launch_on_panic},
    step_size,
    window::Window,
};

/// After the first noise rank has said what is wrong, until the others say it too.
const SAID: Duration = Duration::from_secs(10);

/// Where Open MPI says how many processes it started on this node.
const NODE_SIZE: &str = "OMPI_COMM_WORLD_LOCAL_SIZE";

/// Parts of a window begin at whole pages.
const PAGE: u64 = 4096;

/// A process that MPI knows, before it has spoken to others.
pub struct Started {
    /// Never dropped on the way out of an error: that would wait for the others, who wait for this rank.
    universe: ManuallyDrop<Universe>,
    limit: Limit,
}

impl Started {
    /// MPI is called on the calling thread alone from now on.
    pub fn start(limit: Limit) -> anyhow::Result<Self> {
        let started = limit.guard("start MPI", || mpi::initialize_with_threading(Threading::Funneled));
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

    /// This process's rank among all.
    pub fn rank(&self) -> Rank {
        self.universe.world().rank()
    }

    /// Says who this process is and hears who the others are. Where they can't go together, one rank says why and ends
    /// the launch. Collective over all processes, as the same call of docs/mpi.md.
    pub fn agree(self, own: Hello) -> anyhow::Result<Launch> {
        let Self { universe, limit } = self;
        let world = universe.world();
        let sent = own.encode();
        let mut heard = vec![0u8; hello::BYTES * world.size() as usize];
        request::scope(|scope| {
            let request = world.immediate_all_gather_into(scope, &sent[..], &mut heard[..]);
            limit.wait("the ranks of the launch, to say who they are", request);
        });
        let hellos = heard.chunks(hello::BYTES).map(Hello::decode).collect::<Result<Vec<_>, _>>();
        let hellos = hellos.unwrap_or_else(|error| together(world.rank(), 0, error));
        let root = hellos.iter().position(|hello| hello.role == Role::Noise).unwrap_or(0) as Rank;
        if let Some(difference) = Hello::disagreement(&hellos) {
            together(world.rank(), root, format!("the ranks can't go together: {difference}"));
        }
        let noise: Vec<Rank> = of_role(&hellos, Role::Noise);
        let shards = hello::ranges(hellos[root as usize].dimension, noise.len())
            .unwrap_or_else(|error| together(world.rank(), root, error));
        let color = Color::with_value(if own.role == Role::Noise { 1 } else { 2 });
        let all = limit.guard("a communicator for all ranks", || world.duplicate());
        let role = limit.guard("a communicator for the ranks of a role", || world.split_by_color(color));
        let role = role.context("MPI gave no communicator for the ranks of a role")?;
        let window = hellos
            .iter()
            .any(|hello| hello.window_bytes > 0)
            .then(|| NodeWindow::allocate(&all, own.window_bytes, limit));
        let shards = noise.into_iter().zip(shards).collect();
        Ok(Launch { hellos, shards, root, window, limit, role, all, universe })
    }
}

/// Ends a launch of which all ranks know what is wrong: rank `speaker` says it.
fn together(rank: Rank, speaker: Rank, why: impl std::fmt::Display) -> ! {
    if rank != speaker {
        thread::sleep(SAID);
    }
    end_launch(why)
}

fn of_role(hellos: &[Hello], role: Role) -> Vec<Rank> {
    let ranks = hellos.iter().zip(0..).filter(|(hello, _)| hello.role == role);
    ranks.map(|(_, rank)| rank).collect()
}

/// Processes that agree.
pub struct Launch {
    /// By rank.
    pub hellos: Vec<Hello>,
    /// Noise ranks and what they own, in order.
    pub shards: Vec<(Rank, CoordinateRange)>,
    /// The first noise rank, which keeps the ledger.
    pub root: Rank,
    /// Where training ranks of this node lend memory.
    pub window: Option<NodeWindow>,
    pub limit: Limit,
    /// The processes of this one's role.
    pub role: SimpleCommunicator,
    /// All processes, apart from what else they say to each other.
    pub all: SimpleCommunicator,
    universe: ManuallyDrop<Universe>,
}

impl Launch {
    /// Ends a launch of which all ranks of this role know what is wrong: the first of them says it.
    pub fn refuse(&self, why: &str) -> ! {
        together(self.role.rank(), 0, why)
    }

    /// Gives the window back and ends MPI here, which waits for all others to end it too.
    pub fn end(self) {
        let Self { window, role, all, universe, .. } = self;
        if let Some(window) = window {
            window.free();
        }
        drop((role, all));
        drop(ManuallyDrop::into_inner(universe));
    }

    pub fn rank(&self) -> Rank {
        self.all.rank()
    }

    pub fn is_root(&self) -> bool {
        self.rank() == self.root
    }

    pub fn training_ranks(&self) -> Vec<Rank> {
        of_role(&self.hellos, Role::Training)
    }

    /// Ranks on this node, as their launcher says; else all noise ranks.
    pub fn ranks_on_node(&self) -> usize {
        let said = std::env::var(NODE_SIZE).ok().and_then(|count| count.parse().ok());
        said.unwrap_or(self.shards.len()).clamp(1, self.shards.len())
    }

    /// Of the job.
    pub fn dimension(&self) -> u64 {
        self.hellos[self.root as usize].dimension
    }

    pub fn iterations(&self) -> u64 {
        self.hellos[self.root as usize].iterations
    }

    /// From the first rank of this role to all of it.
    pub fn broadcast(&self, what: &str, bytes: &mut [u8]) {
        request::scope(|scope| {
            let request = self.role.process_at_rank(0).immediate_broadcast_into(scope, bytes);
            self.limit.wait(what, request);
        });
    }

    /// The same, of a length that only the first rank knows.
    pub fn broadcast_any(&self, what: &str, bytes: Vec<u8>) -> Vec<u8> {
        let mut length = (bytes.len() as u64).to_le_bytes();
        self.broadcast(what, &mut length);
        let mut bytes = bytes;
        bytes.resize(u64::from_le_bytes(length) as usize, 0);
        self.broadcast(what, &mut bytes);
        bytes
    }

    /// What each rank of this role gives, in order.
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

/// The window of one node and who shares it.
pub struct NodeWindow {
    pub window: Arc<Window>,
    /// Ranks among all, in order of their ranks within the node.
    ranks: Vec<Rank>,
    limit: Limit,
    /// Lives as long as the window.
    _node: SimpleCommunicator,
}

impl NodeWindow {
    fn allocate(all: &SimpleCommunicator, bytes: u64, limit: Limit) -> Self {
        let node = limit.guard("the processes of each node, to find each other", || all.split_shared(0));
        let own = [all.rank()];
        let mut ranks = vec![0; node.size() as usize];
        request::scope(|scope| {
            let request = node.immediate_all_gather_into(scope, &own[..], &mut ranks[..]);
            limit.wait("the processes of this node, to say their ranks", request);
        });
        let window = limit.guard("a window shared by the processes of this node", || {
            Window::allocate(&node, bytes.next_multiple_of(PAGE) as usize)
        });
        Self { window: Arc::new(window), ranks, limit, _node: node }
    }

    /// The rank within this node; `None` where it is on another.
    pub fn local(&self, rank: Rank) -> Option<usize> {
        self.ranks.iter().position(|other| *other == rank)
    }

    /// Collective over the node.
    pub fn free(self) {
        let Self { window, limit, .. } = self;
        // Nothing writes any more: everyone has said that it is done.
        let window = Arc::into_inner(window);
        limit
            .guard("the processes of this node, to give back the shared window", || window.map(Window::free));
    }
}
