//! A branch's i.i.d. normals, addressable by stream number and coordinate.

use crate::backend::Backend;
use crate::block::{BLOCK, Block, BlockAddress, ZERO_BLOCK};
use crate::chacha::Rounds;
use crate::dispatch::Active;
use crate::grid::exact::{Digits, ExactNormal};
use crate::grid::normals::Normals;
use crate::grid::words::{FirstBits, exact_normal};
use crate::range::check_range;
use crate::{BranchKey, KernelError, RowKeys};
use plan::Coefficients;
use std::ops::Range;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// The i.i.d. standard normals of a branch: a value for each (stream number, coordinate).
///
/// A stream number is a row's number, or a node's where the mechanism is a tree.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Stream {
    key: [u32; 8],
    /// The keys of later rows, where the job was rewound, by rising first stream.
    later: Vec<LaterKey>,
    #[zeroize(skip)]
    rounds: Rounds,
    #[zeroize(skip)]
    active: Active,
}

/// The key of the streams from `first` on.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
struct LaterKey {
    #[zeroize(skip)]
    first: u64,
    words: [u32; 8],
}

fn words_of(key: &BranchKey) -> [u32; 8] {
    let (bytes, _) = key.secret_bytes().as_chunks::<4>();
    std::array::from_fn(|word| u32::from_le_bytes(bytes[word]))
}

impl Stream {
    /// Returns the streams of one branch key, on the best instruction set of this processor.
    pub fn new(key: &BranchKey, rounds: Rounds) -> Self {
        Self { key: words_of(key), later: Vec::new(), rounds, active: Active::best() }
    }

    /// Returns the streams of rows with keys of their own. A stream has the key of the first row that needs it, so
    /// that of a tree the nodes completed before a row keep theirs.
    pub fn of_rows(keys: &RowKeys, coefficients: &Coefficients, rounds: Rounds) -> Self {
        let first_stream = |row: u64| match coefficients {
            Coefficients::Tree(tree) => tree.first_stream(row),
            _ => row,
        };
        Self::from_keys(keys, first_stream, rounds)
    }

    /// Returns the streams of rows with keys of their own, each from the first stream of its first row on.
    pub(crate) fn from_keys(keys: &RowKeys, first_stream: impl Fn(u64) -> u64, rounds: Rounds) -> Self {
        let [(_, first), later @ ..] = keys.keys() else { unreachable!("row keys are never empty") };
        let later =
            later.iter().map(|(row, key)| LaterKey { first: first_stream(*row), words: words_of(key) });
        let mut stream = Self::new(first, rounds);
        stream.later = later.collect();
        stream
    }

    /// Returns streams of another key with the same rounds and instruction set.
    pub(crate) fn with_key(&self, key: &BranchKey) -> Self {
        Self { key: words_of(key), later: Vec::new(), rounds: self.rounds, active: self.active }
    }

    /// Returns the same streams on a chosen instruction set.
    ///
    /// # Errors
    /// [`KernelError::Backend`] for one that this processor does not have.
    pub fn with_backend(mut self, backend: Backend) -> Result<Self, KernelError> {
        self.active = Active::new(backend)?;
        Ok(self)
    }

    pub(crate) fn active(&self) -> Active {
        self.active
    }

    /// Fills `out` with the normals of coordinates 512·`block`..512·(`block` + 1) of stream `number`.
    ///
    /// # Panics
    /// Panics where those coordinates are 2⁶⁴ or more: the counters of such blocks are reserved for extension words.
    pub fn fill_block(&self, number: u64, block: u64, out: &mut [f32; BLOCK]) {
        self.fill_block_and_fetch(number, block, &[], out);
    }

    /// Fills `out` as [`Self::fill_block`] does, while `ahead` comes into the caches.
    pub(crate) fn fill_block_and_fetch(&self, number: u64, block: u64, ahead: &[f32], out: &mut Block) {
        assert!(block <= u64::MAX / BLOCK as u64, "there is no noise block {block}");
        self.active.noise(self.address(number, block), self.rounds, ahead, out);
    }

    /// Fills `out` with approximate normals of a block of stream `number`, as a grid has them, and `bits` with their
    /// words, while `ahead` comes into the caches.
    pub(crate) fn fill_grid_block(
        &self,
        number: u64,
        block: u64,
        ahead: &[f32],
        bits: &mut FirstBits,
        out: &mut Normals,
    ) {
        assert!(block <= u64::MAX / BLOCK as u64, "there is no noise block {block}");
        self.active.grid_bits(self.address(number, block), self.rounds, ahead, bits);
        self.active.grid_normals(bits, out);
    }

    /// A normal of a block of stream `number` as a grid has it, by its place in the block.
    pub(crate) fn exact_normal(
        &self,
        number: u64,
        block: u64,
        within: usize,
        digits: Digits,
    ) -> Option<ExactNormal> {
        let place = self.address(number, block);
        match self.rounds {
            Rounds::Twenty => exact_normal::<true>(place, within, digits),
            Rounds::Twelve => exact_normal::<false>(place, within, digits),
        }
    }

    /// The key of a stream. Rewinds are few: the search through them costs nothing beside a block.
    fn key_of(&self, stream: u64) -> &[u32; 8] {
        let later = self.later.iter().rev().find(|later| later.first <= stream);
        later.map_or(&self.key, |later| &later.words)
    }

    pub(crate) fn address(&self, stream: u64, number: u64) -> BlockAddress<'_> {
        BlockAddress { key: self.key_of(stream), stream, number }
    }

    /// Fills `out` with words of the keystream of stream `number`: sixteen ChaCha blocks from block `first` on, a
    /// multiple of 16. Word w of block `first` + l lies at `[w][l]`, as the bits of a value. It serves tests and
    /// measurements; noise comes from [`Stream::fill_block`].
    pub fn keystream(&self, number: u64, first: u64, out: &mut [[f32; 16]; 16]) {
        self.active.keystream(self.address(number, 0), self.rounds, first & !15, out);
    }

    /// Fills `out` with the normals of a range of coordinates of stream `number`, in O(range).
    ///
    /// # Errors
    /// [`KernelError`] for an empty range, or `out` not as long as the range.
    pub fn iid(&self, number: u64, range: Range<u64>, out: &mut [f32]) -> Result<(), KernelError> {
        let coordinates = check_range(&range)?;
        if out.len() != coordinates {
            return Err(KernelError::BufferLength { index: 0, got: out.len(), expected: coordinates });
        }
        let mut rest = out;
        let mut at = range.start;
        let mut normals: Block = ZERO_BLOCK;
        while !rest.is_empty() {
            let within = (at % BLOCK as u64) as usize;
            let count = rest.len().min(BLOCK - within);
            let (now, later) = rest.split_at_mut(count);
            self.fill_block(number, at / BLOCK as u64, &mut normals);
            now.copy_from_slice(&normals[within..within + count]);
            (rest, at) = (later, at.saturating_add(count as u64));
        }
        Ok(())
    }
}
