//! The choice of the instruction set that the inner loops run with. With `simd` and `memory`, the home of `unsafe` in
//! this crate.
//!
//! Each operation is one generic body, inlined into one shell per instruction set. The bodies hold nothing but
//! IEEE operations in a fixed order, so every shell produces the same bits.

use crate::KernelError;
use crate::backend::Backend;
use crate::block::{self, Block, BlockAddress};
use crate::blt::{self, Blt};
use crate::chacha::{self, Group, Rounds};
use crate::elementwise;
use crate::grid::banded::{self, Source};
use crate::grid::decide::{self, Uncertain, Values, WholeBlock};
use crate::grid::feedback;
use crate::grid::normals::Normals;
use crate::grid::rows::{self, Decider, ROWS, RowBatch};
use crate::grid::words::FirstBits;
use crate::output;
use crate::partial_sums::{self, Sums};
use crate::prefetch::Prefetch;
#[cfg(target_arch = "aarch64")]
use crate::simd::neon::Neon;
use crate::simd::{Simd as _, scalar::Scalar};
#[cfg(target_arch = "x86_64")]
use crate::simd::{avx2::Avx2, avx512::Avx512};
use crate::tile::Tile;
use crate::triangular::{self, TriangularSystem};

/// A backend that was found on this processor. Only [`Active::new`] makes one: the shells rest on that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Active(Set);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Set {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "aarch64")]
    Neon,
}

impl Set {
    fn backend(self) -> Backend {
        match self {
            Set::Portable => Backend::Portable,
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 => Backend::Avx2,
            #[cfg(target_arch = "x86_64")]
            Set::Avx512 => Backend::Avx512,
            #[cfg(target_arch = "aarch64")]
            Set::Neon => Backend::Neon,
        }
    }

    /// The sets that this processor has, the best first.
    fn found() -> Vec<Set> {
        let mut found = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
            let avx512 = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl");
            if avx2 && avx512 {
                found.push(Set::Avx512);
            }
            if avx2 {
                found.push(Set::Avx2);
            }
        }
        #[cfg(target_arch = "aarch64")]
        if std::arch::is_aarch64_feature_detected!("neon") {
            found.push(Set::Neon);
        }
        found.push(Set::Portable);
        found
    }
}

impl Active {
    /// The best instruction set of this processor.
    pub fn best() -> Self {
        Self(Set::found()[0])
    }

    /// Returns a backend of this processor.
    ///
    /// # Errors
    /// [`KernelError::Backend`] for one that this processor does not have.
    pub fn new(backend: Backend) -> Result<Self, KernelError> {
        let fits = |set: &Set| backend == Backend::Auto || set.backend() == backend;
        let found = Set::found().into_iter().find(fits);
        found.map(Self).ok_or_else(|| {
            let available: Vec<String> =
                [Backend::Auto].into_iter().chain(Backend::available()).map(|b| b.to_string()).collect();
            KernelError::Backend { backend, available: available.join(", ") }
        })
    }
}

impl Backend {
    /// Returns the backends this processor can run, `Portable` first and the best last.
    pub fn available() -> Vec<Backend> {
        Set::found().into_iter().rev().map(Set::backend).collect()
    }

    /// Returns the backend that `self` stands for on this processor: `Auto` becomes the best.
    ///
    /// # Errors
    /// [`KernelError::Backend`] for one that this processor does not have.
    pub fn resolve(self) -> Result<Backend, KernelError> {
        Active::new(self).map(|active| active.0.backend())
    }
}

/// One method of [`Active`] for each operation: the body compiled once for every instruction set, with `S` the type
/// and `s` the value of its [`Simd`].
///
/// An entry is `name<const generics>(s, arguments) => body;`. For instance
///
/// ```text
/// stream_into(s, out: &mut [f32], x: &[f32], factor: f32) => output::stream_into(s, out, x, factor);
/// ```
///
/// becomes, on x86-64,
///
/// ```text
/// impl Active {
///     #[inline]
///     pub fn stream_into(self, out: &mut [f32], x: &[f32], factor: f32) {
///         #[target_feature(enable = "avx2,fma")]
///         fn avx2(out: &mut [f32], x: &[f32], factor: f32) {
///             type S = Avx2;
///             let s = unsafe { Avx2::new() };
///             output::stream_into(s, out, x, factor)         // inlined: compiled with AVX2 and FMA
///         }
///         #[target_feature(enable = "avx2,fma,avx512f,…")]
///         fn avx512(out: &mut [f32], x: &[f32], factor: f32) { … the same with S = Avx512 … }
///         match self.0 {
///             Set::Portable => { type S = Scalar; let s = Scalar; output::stream_into(s, out, x, factor) }
///             Set::Avx2 => unsafe { avx2(out, x, factor) },
///             Set::Avx512 => unsafe { avx512(out, x, factor) },
///         }
///     }
/// }
/// ```
///
/// The inner functions are the shells. A body must be `#[inline(always)]` and must not call closures that are not
/// inlined: only code inlined into a shell is compiled with its features. `$generic` repeats within an entry,
/// `$argument` within its parentheses, and the whole entry within the macro; that is all the nesting there is.
macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident$(<$(const $generic:ident: $kind:ty),+>)?
        ($s:ident, $($argument:ident: $type:ty),* $(,)?) => $body:expr;)*) => {
        impl Active {
            $($(#[$doc])*
            #[inline]
            pub fn $name$(<$(const $generic: $kind),+>)?(self, $($argument: $type),*) {
                #[cfg(target_arch = "x86_64")]
                #[target_feature(enable = "avx2,fma")]
                fn avx2$(<$(const $generic: $kind),+>)?($($argument: $type),*) {
                    #[allow(dead_code)]
                    type S = Avx2;
                    // SAFETY: this shell is entered only where AVX2 and FMA were found.
                    let $s = unsafe { Avx2::new() };
                    $body
                }
                #[cfg(target_arch = "x86_64")]
                #[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")]
                fn avx512$(<$(const $generic: $kind),+>)?($($argument: $type),*) {
                    #[allow(dead_code)]
                    type S = Avx512;
                    // SAFETY: this shell is entered only where all its features were found.
                    let $s = unsafe { Avx512::new() };
                    $body
                }
                #[cfg(target_arch = "aarch64")]
                #[target_feature(enable = "neon")]
                fn neon$(<$(const $generic: $kind),+>)?($($argument: $type),*) {
                    #[allow(dead_code)]
                    type S = Neon;
                    // SAFETY: this shell is entered only where NEON was found.
                    let $s = unsafe { Neon::new() };
                    $body
                }
                match self.0 {
                    Set::Portable => {
                        #[allow(dead_code)]
                        type S = Scalar;
                        let $s = Scalar;
                        $body
                    }
                    // SAFETY: `Set::Avx2` is made only by `Set::found`, after it found AVX2 and FMA.
                    #[cfg(target_arch = "x86_64")]
                    Set::Avx2 => unsafe { avx2$(::<$($generic),+>)?($($argument),*) },
                    // SAFETY: `Set::Avx512` is made only by `Set::found`, after it found all six features.
                    #[cfg(target_arch = "x86_64")]
                    Set::Avx512 => unsafe { avx512$(::<$($generic),+>)?($($argument),*) },
                    // SAFETY: `Set::Neon` is made only by `Set::found`, after it found NEON.
                    #[cfg(target_arch = "aarch64")]
                    Set::Neon => unsafe { neon$(::<$($generic),+>)?($($argument),*) },
                }
            })*
        }
    };
}

operations! {
    /// The normals of one noise block of one stream.
    noise(s, place: BlockAddress<'_>, rounds: Rounds, ahead: &[f32], out: &mut Block) => match rounds {
        Rounds::Twenty => block::fill::<S, true>(s, place, ahead, out),
        Rounds::Twelve => block::fill::<S, false>(s, place, ahead, out),
    };
    /// Sixteen neighbouring ChaCha blocks.
    keystream(s, place: BlockAddress<'_>, rounds: Rounds, first: u64, out: &mut Group) => match rounds {
        Rounds::Twenty => chacha::group::<S, true>(s, place.key, place.stream, first, &mut Prefetch::default(), out),
        Rounds::Twelve => chacha::group::<S, false>(s, place.key, place.stream, first, &mut Prefetch::default(), out),
    };
    blt(s, blt: Blt<'_>, state: &mut [Block], rows: &mut [Block]) => blt::rows(s, blt, state, rows);
    accumulate<const K: usize>(
        s, sums: &mut Sums, closes: bool, sources: &[&Tile], next: &[&Tile], coefficients: &[f32],
    ) => partial_sums::accumulate::<S, K>(s, sums, closes, sources, next, coefficients);
    solve<const K: usize>(
        s, sums: &Sums, solve: &TriangularSystem<'_, K>, tile: usize, rows: &mut [Block],
    ) => triangular::solve::<S, K>(s, sums, solve, tile, rows);
    /// Starts to fetch memory that will be read or written once the normals are there.
    prefetch(s, values: &[f32]) => for line in values.as_chunks().0 {
        s.prefetch(line);
    };
    add(_s, sum: &mut [f32], x: &[f32]) => elementwise::add(sum, x);
    merge(_s, carry: &mut Block, weights: (f32, f32), own: &Block, left: &Block)
        => elementwise::merge::<S>(carry, weights, own, left);
    difference(_s, out: &mut Block, a: &Block, b: &Block) => elementwise::difference(out, a, b);
    scale_into(_s, out: &mut [f32], x: &[f32], factor: f32) => output::scale_into(out, x, factor);
    stream_into(s, out: &mut [f32], x: &[f32], factor: f32) => output::stream_into(s, out, x, factor);
    /// Ends a run of `stream_into`.
    fence(s,) => s.fence();
    scale_add(_s, out: &mut [f32], x: &[f32], factor: f32) => output::scale_add(out, x, factor);
    /// The first bits of the uniforms of one noise block of one grid stream.
    grid_bits(s, place: BlockAddress<'_>, rounds: Rounds, ahead: &[f32], bits: &mut FirstBits) => match rounds {
        Rounds::Twenty => bits.fill::<S, true>(s, place, ahead),
        Rounds::Twelve => bits.fill::<S, false>(s, place, ahead),
    };
    /// Approximate normals of given first bits.
    grid_normals(s, bits: &FirstBits, out: &mut Normals) => out.fill(s, bits);
    grid_decide<const FED_BACK: bool>(
        s, deviation: f64, normals: &Normals, f: &Values, n: &mut WholeBlock, open: &mut Uncertain,
    ) => decide::decide::<S, FED_BACK>(s, deviation, normals, f, n, open);
    grid_blt(s, blt: rows::Blt<'_>, state: &mut [Values], together: &mut RowBatch<'_>, open: &mut Decider<'_>)
        => rows::blt(s, blt, state, together, open);
    grid_banded(
        s, sources: &[Source<'_>], within: &[[f64; ROWS]; ROWS], together: &mut RowBatch<'_>, open: &mut Decider<'_>,
    ) => banded::banded(s, sources, within, together, open);
    grid_blt_feedback(_s, omega: &[f64], state: &[Values], f: &mut Values)
        => feedback::blt::<S>(omega, state, f);
    grid_blt_advance(_s, theta: &[f64], state: &mut [Values], n: &WholeBlock)
        => feedback::blt_advance::<S>(theta, state, n);
    grid_inverse(_s, c: f64, source: &Normals, sum: &mut Normals) => feedback::inverse::<S>(c, source, sum);
    scale_bf16(_s, out: &mut [u16], x: &[f32], factor: f32) => output::scale_bf16(out, x, factor);
}
