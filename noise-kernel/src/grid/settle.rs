//! A rounded row of one block: the fast way for all of it and, where that is not certain, the exact way.

use super::check::LARGEST;
use super::decide::{Uncertain, Values, WholeBlock};
use super::exact::Digits;
use super::normals::Normals;
use super::rounding::{Dyadic, ExactSum};
use super::rows::{OpenStrip, ROWS};
use super::words::FirstBits;
use crate::Stream;
use crate::block::BLOCK;

/// A whole block of zeros.
pub(crate) const ZERO_VALUES: Values = [0.0; BLOCK];

/// A block without one.
const NONE_OPEN: Uncertain = [0; BLOCK / 8];

/// The reason that a block has no row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub row: u64,
    /// The coordinate.
    pub coordinate: u64,
    /// The value out of range, or `None` where it is undecided.
    pub value: Option<i128>,
}

/// Working space of one thread, where cache lines begin.
#[repr(C, align(64))]
pub(crate) struct Scratch {
    /// The row, and those made together with it.
    pub rows: [WholeBlock; ROWS],
    /// F.
    pub f: Values,
    /// Those of one row.
    pub words: FirstBits,
    pub normals: [Normals; ROWS],
    /// Sums of an inverse mechanism.
    pub sums: Vec<Normals>,
}

impl Scratch {
    pub fn new(sums: usize) -> Box<Self> {
        let sums = (0..sums).map(|_| Normals::ZERO).collect();
        Box::new(Self {
            rows: [[0; BLOCK]; ROWS],
            words: FirstBits::ZERO,
            f: ZERO_VALUES,
            normals: [const { Normals::ZERO }; ROWS],
            sums,
        })
    }
}

/// The first of the faults of rows made together.
#[derive(Default)]
pub(crate) struct Faults(Option<Fault>);

impl Faults {
    pub fn note(&mut self, fault: Fault) {
        if self.0.as_ref().is_none_or(|known| fault.place() < known.place()) {
            self.0 = Some(fault);
        }
    }

    /// Keeps what comes first in either.
    pub fn join(&mut self, other: Result<(), Fault>) {
        if let Err(fault) = other {
            self.note(fault);
        }
    }

    pub fn result(self) -> Result<(), Fault> {
        self.0.map_or(Ok(()), Err)
    }
}

impl Fault {
    fn place(&self) -> (u64, u64) {
        (self.row, self.coordinate)
    }
}

/// One row of one block.
#[derive(Clone, Copy)]
pub(crate) struct BlockRow<'a> {
    pub stream: &'a Stream,
    pub row: u64,
    pub block: u64,
}

impl BlockRow<'_> {
    /// The row ← ⌊s·z + ½⌋, with the normals of stream `number`.
    pub fn fresh(&self, number: u64, s: f64, scratch: &mut Scratch) -> Result<(), Fault> {
        let Scratch { words, normals: [normals, ..], rows: [n, ..], .. } = scratch;
        self.stream.fill_grid_block(number, self.block, &[], words, normals);
        let mut open = NONE_OPEN;
        self.stream.active().grid_decide::<false>(s, normals, &ZERO_VALUES, n, &mut open);
        self.settle(0, &open, n, |at, digits| self.term(s, 1.0, number, at, digits, ExactSum::new()))
    }

    /// The row ← ⌊s·z − f + ½⌋, with the normals of the row.
    pub fn fed_back(&self, s: f64, scratch: &mut Scratch) -> Result<(), Fault> {
        let Scratch { words, normals: [normals, ..], rows: [n, ..], f, .. } = scratch;
        self.stream.fill_grid_block(self.row, self.block, &[], words, normals);
        let mut open = NONE_OPEN;
        self.stream.active().grid_decide::<true>(s, normals, f, n, &mut open);
        self.settle(0, &open, n, |at, digits| self.less(s, f[at], at, digits))
    }

    /// Decides what is not certain of a strip: n ← ⌊s·z − f + ½⌋.
    #[cold]
    #[inline(never)]
    pub fn settle_strip(&self, s: f64, strip: &OpenStrip<'_>, n: &mut [i32]) -> Result<(), Fault> {
        let less = |at: usize, digits| self.less(s, strip.f[at - strip.first], at, digits);
        self.settle(strip.first, &strip.uncertain, n, less)
    }

    /// n ← ⌊Σ s·c·z + ½⌋ of `terms`, the streams and their c, whose approximate sum is there.
    pub fn summed(
        &self,
        s: f64,
        terms: &[(u64, f64)],
        sum: &mut Normals,
        n: &mut WholeBlock,
    ) -> Result<(), Fault> {
        // A term is rounded twice and its coefficient once, each time by at most 2⁻⁵³ of what was summed so far; E is
        // more than 7·2⁻⁴⁹ of it.
        let inflation = 1.0 + (2 * terms.len() + 3) as f64 / 100.0;
        sum.error.iter_mut().for_each(|error| *error *= inflation);
        let mut open = NONE_OPEN;
        self.stream.active().grid_decide::<true>(1.0, sum, &ZERO_VALUES, n, &mut open);
        self.settle(0, &open, n, |at, digits| {
            terms
                .iter()
                .try_fold(ExactSum::new(), |sum, &(number, c)| self.term(s, c, number, at, digits, sum))
        })
    }

    /// s·z − f.
    fn less(&self, s: f64, f: f64, at: usize, digits: Digits) -> Option<ExactSum> {
        let mut sum = ExactSum::new();
        sum.subtract(f);
        self.term(s, 1.0, self.row, at, digits, sum)
    }

    /// The sum and s·c·z.
    fn term(
        &self,
        s: f64,
        c: f64,
        number: u64,
        at: usize,
        digits: Digits,
        mut sum: ExactSum,
    ) -> Option<ExactSum> {
        let z = self.stream.exact_normal(number, self.block, at, digits)?;
        sum.add(Dyadic::new(s).times(Dyadic::new(c)), &z);
        Some(sum)
    }

    /// Decides every value that is not certain, of coordinates from `first` on. Which these are depends on the order of
    /// operations, which differs between instruction sets; the whole numbers don't.
    #[inline(always)]
    fn settle(
        &self,
        first: usize,
        open: &[u8],
        n: &mut [i32],
        exact: impl Fn(usize, Digits) -> Option<ExactSum>,
    ) -> Result<(), Fault> {
        if open.iter().fold(0, |any, &mask| any | mask) == 0 {
            return Ok(());
        }
        let mut faults = Faults::default();
        for (i, n) in n.iter_mut().enumerate().filter(|(i, _)| open[i / 8] >> (i % 8) & 1 == 1) {
            let at = first + i;
            let by = |digits| exact(at, digits).and_then(ExactSum::rounded);
            let value = by(Digits::Some).or_else(|| by(Digits::All));
            match value.filter(|value| value.unsigned_abs() <= LARGEST as u128) {
                Some(value) => *n = value as i32,
                None => faults.note(self.fault(at, value)),
            }
        }
        faults.result()
    }

    pub fn fault(&self, at: usize, value: Option<i128>) -> Fault {
        // The product fits: no block has coordinates of 2⁶⁴ or more.
        Fault { row: self.row, coordinate: self.block * BLOCK as u64 + at as u64, value }
    }
}
