//! A rounded row of one block: the fast way for all of it and, where that is not certain, the exact way.

use super::check::LARGEST;
use super::decide::{Values, whole_and_excess};
use super::normals::Normals;
use super::rounding::{Dyadic, ExactSum};
use super::rows::ROWS;
use crate::Stream;
use crate::block::BLOCK;
use crate::simd::scalar::Scalar;

/// A whole block of zeros.
pub(crate) const ZERO_VALUES: Values = [0.0; BLOCK];

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
    pub rows: [Values; ROWS],
    /// F.
    pub f: Values,
    /// Those of each row.
    pub normals: [Normals; ROWS],
    /// Sums of an inverse mechanism.
    pub sums: Vec<Normals>,
}

impl Scratch {
    pub fn new(sums: usize) -> Box<Self> {
        let sums = (0..sums).map(|_| Normals::ZERO).collect();
        Box::new(Self {
            rows: [ZERO_VALUES; ROWS],
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
        let Scratch { normals: [normals, ..], rows: [n, ..], .. } = scratch;
        self.stream.fill_grid_block(number, self.block, normals);
        if self.stream.active().decide::<false>(s, normals, &ZERO_VALUES, n) {
            return Ok(());
        }
        let approximate = |at: usize| whole_and_excess::<Scalar>(s, normals.z[at], error(normals, at), 0.0);
        self.settle(0, n, approximate, |at| self.term(s, 1.0, number, at, ExactSum::new()))
    }

    /// The row ← ⌊s·z − f + ½⌋, with the normals of the row.
    pub fn fed_back(&self, s: f64, scratch: &mut Scratch) -> Result<(), Fault> {
        let Scratch { normals: [normals, ..], rows: [n, ..], f, .. } = scratch;
        self.stream.fill_grid_block(self.row, self.block, normals);
        if self.stream.active().decide::<true>(s, normals, f, n) {
            return Ok(());
        }
        self.settle_fed_back(s, normals, 0, f, n)
    }

    /// Decides what is not certain of some neighbouring coordinates from `first` on: n ← ⌊s·z − f + ½⌋.
    #[cold]
    #[inline(never)]
    pub fn settle_fed_back(
        &self,
        s: f64,
        normals: &Normals,
        first: usize,
        f: &[f64],
        n: &mut [f64],
    ) -> Result<(), Fault> {
        let approximate =
            |at: usize| whole_and_excess::<Scalar>(s, normals.z[at], error(normals, at), f[at - first]);
        self.settle(first, n, approximate, |at| {
            let mut sum = ExactSum::new();
            sum.subtract(f[at - first]);
            self.term(s, 1.0, self.row, at, sum)
        })
    }

    /// n ← ⌊Σ s·c·z + ½⌋ of `terms`, the streams and their c, whose approximate sum is there.
    pub fn summed(
        &self,
        s: f64,
        terms: &[(u64, f64)],
        sum: &mut Normals,
        n: &mut Values,
    ) -> Result<(), Fault> {
        // A term is rounded twice and its coefficient once, each time by at most 2⁻⁵³ of what was summed so far; E is
        // more than 7·2⁻⁴⁹ of it.
        let inflation = 1.0 + (2 * terms.len() + 3) as f64 / 100.0;
        sum.error.iter_mut().for_each(|error| *error *= inflation);
        if self.stream.active().decide::<false>(1.0, sum, &ZERO_VALUES, n) {
            return Ok(());
        }
        let approximate = |at: usize| whole_and_excess::<Scalar>(1.0, sum.z[at], error(sum, at), 0.0);
        self.settle(0, n, approximate, |at| {
            terms.iter().try_fold(ExactSum::new(), |sum, &(number, c)| self.term(s, c, number, at, sum))
        })
    }

    /// The sum and s·c·z.
    fn term(&self, s: f64, c: f64, number: u64, at: usize, mut sum: ExactSum) -> Option<ExactSum> {
        let z = self.stream.exact_normal(number, self.block, at)?;
        sum.add(Dyadic::new(s).times(Dyadic::new(c)), &z);
        Some(sum)
    }

    /// Decides every value that is not certain, of coordinates from `first` on. All are taken anew, since what is certain depends on the order
    /// of operations, which differs between instruction sets; the whole numbers don't.
    #[cold]
    #[inline(never)]
    fn settle(
        &self,
        first: usize,
        n: &mut [f64],
        approximate: impl Fn(usize) -> (f64, f64),
        exact: impl Fn(usize) -> Option<ExactSum>,
    ) -> Result<(), Fault> {
        let mut faults = Faults::default();
        for (at, n) in (first..).zip(n) {
            let (whole, excess) = approximate(at);
            if excess < 0.0 {
                *n = whole;
                continue;
            }
            let value = exact(at).and_then(ExactSum::rounded);
            let fits = value.filter(|value| value.unsigned_abs() <= LARGEST as u128);
            match fits {
                Some(value) => *n = value as f64,
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

/// The bound of a coordinate's pair.
fn error(normals: &Normals, at: usize) -> f64 {
    normals.error[at / 32 * 16 + at % 16]
}
