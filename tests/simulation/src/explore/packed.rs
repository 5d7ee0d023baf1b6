//! A canonical state in 127 bits.

use super::state::{Grants, Holder, Job, Pending, REWOUND_TO, ROWS, Row, State, Worker};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Packed(u128);

impl Packed {
    /// Equal for equal states alone.
    pub fn of(state: &State) -> Self {
        let mut bits = Writer { word: 0, width: 0 };
        code(&mut state.clone(), &mut bits);
        Self(bits.word)
    }

    pub fn state(self) -> State {
        let mut state = State::first(0);
        code(&mut state, &mut Reader(self.0));
        state
    }
}

/// Reads or writes: which bits are what is said once for both.
trait Bits {
    fn number(&mut self, value: &mut u8, width: u32);

    fn flag(&mut self, flag: &mut bool) {
        let mut value = u8::from(*flag);
        self.number(&mut value, 1);
        *flag = value == 1;
    }
}

struct Writer {
    word: u128,
    width: u32,
}

impl Bits for Writer {
    fn number(&mut self, value: &mut u8, width: u32) {
        self.word |= u128::from(*value) << self.width;
        self.width += width;
        assert!(*value < 1 << width && self.width <= u128::BITS, "does not fit");
    }
}

struct Reader(u128);

impl Bits for Reader {
    fn number(&mut self, value: &mut u8, width: u32) {
        *value = self.0 as u8 & ((1 << width) - 1);
        self.0 >>= width;
    }
}

fn code(state: &mut State, bits: &mut impl Bits) {
    bits.flag(&mut state.is_up);
    for left in
        [&mut state.starts, &mut state.crashes_left, &mut state.partitions_left, &mut state.rewinds_left]
    {
        bits.number(left, 1);
    }
    let mut cut = state.cut.map_or(0, |worker| worker + 1);
    bits.number(&mut cut, 2);
    state.cut = cut.checked_sub(1);
    code_pending(&mut state.pending, bits);
    state.jobs.iter_mut().for_each(|job| code_job(job, bits));
    state.workers.iter_mut().for_each(|worker| code_worker(worker, bits));
}

fn code_pending(pending: &mut Option<Pending>, bits: &mut impl Bits) {
    let rows = ROWS as u8;
    let mut value = pending.map_or(0, |Pending { job, row, commitment }| (job * rows + row) * 2 + commitment);
    bits.number(&mut value, 4);
    *pending = value.checked_sub(1).map(|value| Pending {
        job: value / 2 / rows,
        row: value / 2 % rows,
        commitment: value % 2 + 1,
    });
}

fn code_job(job: &mut Job, bits: &mut impl Bits) {
    bits.number(&mut job.branch, 1);
    bits.number(&mut job.epoch, 1);
    job.owners.iter_mut().for_each(|owner| bits.number(owner, 2));
    let mut holder = job.holder as u8;
    bits.number(&mut holder, 2);
    job.holder = [Holder::Unknown, Holder::Running, Holder::Gone][usize::from(holder)];
    bits.number(&mut job.fenced, 2);
    let [first, second] = &mut job.rows;
    // No others of the second branch are ever bound.
    for Row { bound, tokens } in first.iter_mut().chain(&mut second[REWOUND_TO..]) {
        bits.number(bound, 2);
        tokens.iter_mut().for_each(|tokens| bits.number(tokens, 2));
    }
}

fn code_worker(worker: &mut Worker, bits: &mut impl Bits) {
    for flag in [&mut worker.is_up, &mut worker.is_fresh, &mut worker.is_live] {
        bits.flag(flag);
    }
    code_grants(&mut worker.held, bits);
    let mut is_answered = worker.answer.is_some();
    bits.flag(&mut is_answered);
    let mut answer = worker.answer.unwrap_or_default();
    code_grants(&mut answer, bits);
    worker.answer = is_answered.then_some(answer);
}

fn code_grants(grants: &mut Grants, bits: &mut impl Bits) {
    bits.number(&mut grants.key, 1);
    for grant in &mut grants.jobs {
        let mut value = grant.map_or(0, |(branch, epoch)| 1 + branch * 2 + epoch);
        bits.number(&mut value, 3);
        *grant = value.checked_sub(1).map(|value| (value / 2, value % 2));
    }
}
