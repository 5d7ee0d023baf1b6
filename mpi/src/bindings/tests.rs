use super::*;
use crate::wire::{Binding, JobAction, JobRequest, Message};

/// The first noise rank and another; two training ranks that fetch, and one that goes back.
const FIRST: Rank = 0;
const OTHER: Rank = 1;
const FETCHES: Rank = 2;
const FETCHES_TOO: Rank = 3;
const REWINDS: Rank = 4;

const ROW: u64 = 7;

fn request(from: Rank, branch: u64, text: &str) -> RowRequest {
    let commitment = Commitment::of_text(text);
    let digest = commitment.to_bytes();
    let get = Get::first(ROW, branch, digest);
    RowRequest { from, get, range: CoordinateRange { start: 0, end: 1 }, commitment }
}

#[test]
fn a_binding_is_of_its_branch_alone() {
    let a = Commitment::of_text("a");
    let mut bindings = Bindings::for_branch(0);
    assert!(matches!(
        bindings.request(request(FETCHES, ANY_BRANCH, "a")),
        Decision::Bind { branch: 0, row: ROW, .. }
    ));
    assert!(matches!(bindings.request(request(FETCHES, 0, "a")), Decision::Wait));
    assert!(matches!(bindings.request(request(FETCHES, 1, "a")), Decision::Superseded(_)));
    assert!(bindings.bound(1, ROW, a).is_empty(), "bound on a branch that the shard is not on");
    assert!(bindings.not_bound(1, ROW, a).is_empty());
    assert!(matches!(&bindings.bound(0, ROW, a)[..], [Decision::Generate(_), Decision::Generate(_)]));
    assert!(matches!(bindings.request(request(FETCHES, 0, "b")), Decision::AlreadyBound(_)));
    assert!(bindings.is_idle());
}

#[test]
fn a_rank_that_learns_of_a_branch_takes_nothing_until_it_has_turned() {
    let a = Commitment::of_text("a");
    let mut bindings = Bindings::for_branch(0);
    bindings.request(request(FETCHES, ANY_BRANCH, "a"));
    assert!(matches!(&bindings.leave()[..], [Decision::Superseded(_)]), "who waits is refused at once");
    assert!(bindings.bound(1, ROW, a).is_empty() && bindings.bound(0, ROW, a).is_empty());
    for branch in [ANY_BRANCH, 0, 1] {
        assert!(matches!(bindings.request(request(FETCHES, branch, "a")), Decision::Superseded(_)));
    }
    let mut bindings = Bindings::for_branch(1);
    assert!(matches!(bindings.request(request(FETCHES, 1, "a")), Decision::Bind { branch: 1, .. }));
    assert!(bindings.not_bound(0, ROW, a).is_empty(), "an answer to what was asked before the turn");
    assert_eq!(bindings.not_bound(1, ROW, a).len(), 1);
    assert!(bindings.is_idle());
}

/// A rewind beside a row that two training ranks, or one, ask both noise ranks for, in every order in which messages may
/// come and ranks may turn: no row is made unless it is bound, so, on the branch that its noise is of; everyone is
/// answered, and both noise ranks end on the new branch.
#[test]
fn no_rank_makes_what_is_not_bound_on_its_branch() {
    for other in [(FETCHES, "a"), (FETCHES_TOO, "b")] {
        let orders = in_every_order(|order| {
            let mut launch = Launch::default();
            launch.get(FIRST, request(FETCHES, ANY_BRANCH, "a"));
            launch.get(OTHER, request(other.0, ANY_BRANCH, other.1));
            launch.send(
                REWINDS,
                FIRST,
                Message::Job(JobRequest { slot: 0, action: JobAction::Rewind { row: 0 } }),
            );
            while let Some(events) = launch.events() {
                launch.happens(events[order.choose(events.len())]);
            }
            assert_eq!((launch.answered, launch.ranks[1].shard), (2, launch.branch));
            assert!(launch.ranks.iter().all(|rank| rank.bindings.is_idle()));
        });
        assert!(orders > 1_000, "{orders} orders");
    }
}

/// Calls `run` once for every sequence of choices that it can make.
fn in_every_order(mut run: impl FnMut(&mut Order)) -> usize {
    let mut order = Order::default();
    let mut count = 0;
    loop {
        order.next = 0;
        run(&mut order);
        count += 1;
        // Another choice as late as there is one.
        while let Some((chosen, of)) = order.choices.pop() {
            if chosen + 1 < of {
                order.choices.push((chosen + 1, of));
                break;
            }
        }
        if order.choices.is_empty() {
            return count;
        }
    }
}

/// Each choice, and of how many.
#[derive(Default)]
struct Order {
    choices: Vec<(usize, usize)>,
    next: usize,
}

impl Order {
    fn choose(&mut self, of: usize) -> usize {
        if self.next == self.choices.len() {
            self.choices.push((0, of));
        }
        self.next += 1;
        self.choices[self.next - 1].0
    }
}

#[derive(Clone, Copy)]
enum Event {
    /// The message at this place of the mail comes.
    Comes(usize),
    /// A row is made, and handed out.
    IsMade(Rank),
    /// The other noise rank turns.
    Turns,
    /// The first noise rank opens a branch, and turns.
    Opens,
}

struct NoiseRank {
    bindings: Bindings,
    /// The branch that its shard is on.
    shard: u64,
    turning: Option<u64>,
    making: usize,
}

/// Two noise ranks as `service` runs them, without MPI and without noise.
struct Launch {
    /// The ledger.
    bound: BTreeMap<(u64, u64), Commitment>,
    branch: u64,
    /// Of the first noise rank.
    rewinds: usize,
    ranks: [NoiseRank; 2],
    /// Under way, in the order in which they were sent.
    mail: Vec<(Rank, Rank, Message)>,
    answered: usize,
}

impl Default for Launch {
    fn default() -> Self {
        let ranks = [FIRST, OTHER].map(|_| NoiseRank {
            bindings: Bindings::for_branch(0),
            shard: 0,
            turning: None,
            making: 0,
        });
        Self { bound: BTreeMap::new(), branch: 0, rewinds: 0, ranks, mail: Vec::new(), answered: 0 }
    }
}

impl Launch {
    fn rank(&mut self, rank: Rank) -> &mut NoiseRank {
        &mut self.ranks[rank as usize]
    }

    fn send(&mut self, from: Rank, to: Rank, message: Message) {
        self.mail.push((from, to, message));
    }

    fn get(&mut self, to: Rank, request: RowRequest) {
        self.send(request.from, to, Message::Get(request.get));
    }

    /// Returns the events that may happen next. MPI keeps the order between two ranks, and no other.
    fn events(&self) -> Option<Vec<Event>> {
        let is_first = |at: usize| {
            let (from, to, _) = &self.mail[at];
            !self.mail[..at].iter().any(|(other, of, _)| (other, of) == (from, to))
        };
        let mut events: Vec<_> = (0..self.mail.len()).filter(|at| is_first(*at)).map(Event::Comes).collect();
        let makes = |rank: &Rank| self.ranks[*rank as usize].making > 0;
        events.extend([FIRST, OTHER].into_iter().filter(makes).map(Event::IsMade));
        if self.ranks[1].turning.is_some() && !makes(&OTHER) {
            events.push(Event::Turns);
        }
        if self.rewinds > 0 && !makes(&FIRST) {
            events.push(Event::Opens);
        }
        (!events.is_empty()).then_some(events)
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Comes(at) => {
                let (from, to, message) = self.mail.remove(at);
                self.comes(from, to, message);
            }
            Event::IsMade(rank) => {
                self.rank(rank).making -= 1;
                self.answered += 1;
            }
            Event::Turns => {
                let branch = self.rank(OTHER).turning.take().unwrap();
                self.turn(OTHER, branch);
            }
            Event::Opens => {
                self.rewinds -= 1;
                self.branch += 1;
                let branch = self.branch;
                self.send(FIRST, OTHER, Message::Branch { branch, grant_bytes: 0 });
                self.leave(FIRST);
                self.turn(FIRST, branch);
            }
        }
    }

    fn leave(&mut self, rank: Rank) {
        let decisions = self.rank(rank).bindings.leave();
        decisions.into_iter().for_each(|decision| self.settle(rank, decision));
    }

    fn turn(&mut self, rank: Rank, branch: u64) {
        let noise = self.rank(rank);
        // Who still waited would never be answered: the count says so.
        noise.shard = branch;
        noise.bindings = Bindings::for_branch(branch);
    }

    fn comes(&mut self, from: Rank, to: Rank, message: Message) {
        match message {
            Message::Get(get) => {
                let range = CoordinateRange { start: 0, end: 1 };
                let commitment = get.commitment().unwrap();
                let request = RowRequest { from, get, range, commitment };
                let decision = self.rank(to).bindings.request(request);
                self.settle(to, decision);
            }
            Message::Job(JobRequest { action: JobAction::Rewind { .. }, .. }) => self.rewinds += 1,
            Message::Branch { branch, .. } => {
                self.rank(to).turning = Some(branch);
                self.leave(to);
            }
            Message::Bind(binding) => {
                let Binding { branch, row, .. } = binding;
                if !self.bind(branch, row, binding.commitment().unwrap()) {
                    self.send(to, from, Message::NotBound { binding, reason: vec![] });
                }
            }
            Message::Bound(binding) => {
                self.is_bound(to, binding.branch, binding.row, binding.commitment().unwrap());
            }
            Message::NotBound { binding, .. } => {
                let commitment = binding.commitment().unwrap();
                let refused = self.rank(to).bindings.not_bound(binding.branch, binding.row, commitment);
                self.answered += refused.len();
            }
            message => panic!("{message:?} is not sent here"),
        }
    }

    /// Applies the ledger's rule: returns false where the request is refused.
    fn bind(&mut self, branch: u64, row: u64, commitment: Commitment) -> bool {
        if branch != self.branch || *self.bound.entry((branch, row)).or_insert(commitment) != commitment {
            return false;
        }
        let message = Message::Bound(Binding::new(branch, row, commitment));
        self.send(FIRST, OTHER, message);
        self.is_bound(FIRST, branch, row, commitment);
        true
    }

    fn is_bound(&mut self, rank: Rank, branch: u64, row: u64, commitment: Commitment) {
        let decisions = self.rank(rank).bindings.bound(branch, row, commitment);
        decisions.into_iter().for_each(|decision| self.settle(rank, decision));
    }

    fn settle(&mut self, rank: Rank, decision: Decision) {
        match decision {
            Decision::Generate(request) => {
                let branch = self.rank(rank).shard;
                let bound = self.bound.get(&(branch, request.get.row));
                assert_eq!(bound, Some(&request.commitment), "rank {rank} makes a row of branch {branch}");
                self.rank(rank).making += 1;
            }
            Decision::AlreadyBound(_) | Decision::Superseded(_) => self.answered += 1,
            Decision::Wait => {}
            Decision::Bind { branch, row, commitment } if rank == FIRST => {
                if !self.bind(branch, row, commitment) {
                    let refused = self.rank(rank).bindings.not_bound(branch, row, commitment);
                    self.answered += refused.len();
                }
            }
            Decision::Bind { branch, row, commitment } => {
                let bind = Message::Bind(Binding::new(branch, row, commitment));
                self.send(rank, FIRST, bind);
            }
        }
    }
}
