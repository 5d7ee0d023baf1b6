//! One state of two processes on two copies of one ledger.

use super::state::ROWS;

/// Rows of the job; the others of [`ROWS`] are never asked for.
pub const ASKED: usize = 2;

/// What two copies may do that they must not. None of it is so in the program.
#[derive(Clone, Copy, Debug, Default)]
pub struct CopyRules {
    /// An anchor that another process may hold is taken up at once.
    pub is_not_watched: bool,
    /// An anchor is written over whatever was there.
    pub writes_over: bool,
    /// An anchor that is gone is written again by a process whose lease is over.
    pub writes_unwatched: bool,
    /// Rows are bound without a lease.
    pub outlives_lease: bool,
    /// An anchor that has seen more agrees.
    pub ignores_height: bool,
    /// An adopted copy binds on the branch that it was on.
    pub keeps_branch: bool,
}

/// How far a process has come with the anchor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Keeper {
    Out,
    /// Since it was written so, or was not there.
    Watching(Option<u8>),
    /// It has written this opening, and the ledger does not have it yet.
    Announced {
        opening: u8,
        written: u8,
    },
    Held {
        written: u8,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Process {
    pub is_up: bool,
    /// The latest opening in its ledger; 0 for none.
    pub opening: u8,
    /// Rows that were ever bound: the entries of its chains.
    pub height: u8,
    pub rows: [u8; ROWS],
    pub keeper: Keeper,
    pub is_leased: bool,
    /// It was found to be a copy.
    pub is_stopped: bool,
    /// Once it was adopted, the first row of its own noise.
    pub fresh_from: Option<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Anchor {
    pub opening: u8,
    pub before: u8,
    pub is_settled: bool,
    pub height: u8,
    pub written: u8,
    pub holder: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Copies {
    /// The original, and a clone once there is one.
    pub processes: [Option<Process>; 2],
    pub anchor: Option<Anchor>,
    pub drawn: u8,
    pub ends_left: u8,
    pub losses_left: u8,
    /// The commitments, a bit each, that were granted for each row: of the ledger's noise, and of an adopted copy's own.
    pub granted: [[u8; ASKED]; 2],
}

/// A step of the two processes; `at` is 0 for the original.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyAction {
    Clone,
    Read { at: usize },
    TakeUp { at: usize },
    Note { at: usize },
    Renew { at: usize },
    LeaseEnds { at: usize },
    End { at: usize },
    Start { at: usize },
    Lose,
    Adopt,
    Bind { at: usize, row: usize, commitment: u8 },
}

impl Copies {
    /// The original holds the anchor.
    pub fn first() -> Self {
        let original = Process {
            is_up: true,
            opening: 1,
            height: 0,
            rows: [0; ROWS],
            keeper: Keeper::Held { written: 2 },
            is_leased: true,
            is_stopped: false,
            fresh_from: None,
        };
        let anchor = Anchor { opening: 1, before: 1, is_settled: true, height: 0, written: 2, holder: 0 };
        Self {
            processes: [Some(original), None],
            anchor: Some(anchor),
            drawn: 2,
            ends_left: 2,
            losses_left: 1,
            granted: [[0; ASKED]; 2],
        }
    }

    pub fn draw(&mut self) -> u8 {
        self.drawn += 1;
        self.drawn
    }

    pub fn with(mut self, at: usize, process: Process) -> Self {
        self.processes[at] = Some(process);
        self
    }
}

/// The anchor is written by the process at `at`, whose ledger has its opening.
pub fn renewed(state: &Copies, at: usize, process: Process) -> Copies {
    let mut reached = *state;
    let written = reached.draw();
    let Process { opening, height, .. } = process;
    reached.anchor =
        Some(Anchor { opening, before: opening, is_settled: true, height, written, holder: at as u8 });
    reached.with(at, Process { keeper: Keeper::Held { written }, is_leased: true, ..process })
}
