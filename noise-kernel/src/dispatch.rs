//! Which instruction set the inner loops are compiled for. The one home of `unsafe` in this crate.
//!
//! Each operation is one generic body, inlined into one shell per instruction set. The bodies hold nothing but
//! IEEE operations in a fixed order, so every shell gives the same bits.

use crate::block::{self, Block};
use crate::blt::{self, Blt};
use crate::{KernelError, Rounds, linear};

/// What a caller may ask for. All give the same bits; forcing one is for tests and measurements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// The best this processor has.
    #[default]
    Auto,
    /// What the compiler's target always has: SSE2 on x86-64, NEON on 64-bit Arm.
    Portable,
    Avx2,
    /// AVX-512 F, BW, DQ and VL.
    Avx512,
}

impl Backend {
    /// The backends this processor can run, `Portable` first.
    pub fn available() -> Vec<Backend> {
        [Backend::Portable, Backend::Avx2, Backend::Avx512]
            .into_iter()
            .filter(|&backend| Active::new(backend).is_ok())
            .collect()
    }
}

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
}

#[cfg(target_arch = "x86_64")]
fn detected() -> (bool, bool) {
    let avx512 = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl");
    (is_x86_feature_detected!("avx2"), avx512)
}

impl Active {
    /// The best instruction set of this processor.
    pub fn best() -> Self {
        Self::new(Backend::Auto).unwrap_or(Self(Set::Portable))
    }

    /// Error: a backend this processor does not have.
    #[cfg(target_arch = "x86_64")]
    pub fn new(backend: Backend) -> Result<Self, KernelError> {
        match (backend, detected()) {
            (Backend::Portable, _) | (Backend::Auto, (false, false)) => Ok(Self(Set::Portable)),
            (Backend::Avx512 | Backend::Auto, (_, true)) => Ok(Self(Set::Avx512)),
            (Backend::Avx2 | Backend::Auto, (true, _)) => Ok(Self(Set::Avx2)),
            _ => Err(KernelError::Backend { backend }),
        }
    }

    /// Error: a backend this processor does not have.
    #[cfg(not(target_arch = "x86_64"))]
    pub fn new(backend: Backend) -> Result<Self, KernelError> {
        match backend {
            Backend::Portable | Backend::Auto => Ok(Self(Set::Portable)),
            Backend::Avx2 | Backend::Avx512 => Err(KernelError::Backend { backend }),
        }
    }
}

/// One method of [`Active`] for each operation: the body compiled once for every instruction set.
macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident$(<$(const $generic:ident: $kind:ty),+>)?
        ($($argument:ident: $type:ty),* $(,)?) => $body:expr;)*) => {
        impl Active {
            $($(#[$doc])*
            #[inline]
            pub fn $name$(<$(const $generic: $kind),+>)?(self, $($argument: $type),*) {
                #[cfg(target_arch = "x86_64")]
                #[target_feature(enable = "avx2")]
                fn avx2$(<$(const $generic: $kind),+>)?($($argument: $type),*) {
                    $body
                }
                #[cfg(target_arch = "x86_64")]
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
                fn avx512$(<$(const $generic: $kind),+>)?($($argument: $type),*) {
                    $body
                }
                match self.0 {
                    Set::Portable => $body,
                    // SAFETY: `Set::Avx2` is made only by `Active::new`, after it found AVX2.
                    #[cfg(target_arch = "x86_64")]
                    Set::Avx2 => unsafe { avx2$(::<$($generic),+>)?($($argument),*) },
                    // SAFETY: `Set::Avx512` is made only by `Active::new`, after it found all four features.
                    #[cfg(target_arch = "x86_64")]
                    Set::Avx512 => unsafe { avx512$(::<$($generic),+>)?($($argument),*) },
                }
            })*
        }
    };
}

operations! {
    /// The normals of one noise block of one stream.
    noise(key: &[u32; 8], rounds: Rounds, stream: u64, number: u64, out: &mut Block) => match rounds {
        Rounds::Twenty => block::fill::<true>(key, stream, number, out),
        Rounds::Twelve => block::fill::<false>(key, stream, number, out),
    };
    blt_row(blt: Blt<'_>, state: &mut [Block], out: &mut Block) => blt::row(blt, state, out);
    scale(out: &mut Block, factor: f32) => linear::scale(out, factor);
    add(sum: &mut Block, x: &Block) => linear::add(sum, x);
    add_product(sum: &mut Block, factor: f32, x: &Block) => linear::add_product(sum, factor, x);
    merge(carry: &mut Block, weights: (f32, f32), own: &Block, left: &Block)
        => linear::merge(carry, weights, own, left);
    difference(out: &mut Block, a: &Block, b: &Block, factor: f32) => linear::difference(out, a, b, factor);
    sum(out: &mut Block, a: &Block, b: &Block, factor: f32) => linear::sum(out, a, b, factor);
    solve(y: &mut Block, z: &Block, total: &Block, inverse_diagonal: f32)
        => linear::solve(y, z, total, inverse_diagonal);
    scale_twice(out: &mut Block, x: &Block, first: f32, second: f32)
        => linear::scale_twice(out, x, first, second);
    accumulate<const K: usize, const U: usize>(
        sums: &mut [Block; K], ring: &[Block], slots: &[usize; U], coefficients: &[f32],
    ) => linear::accumulate::<K, U>(sums, ring, slots, coefficients);
}
