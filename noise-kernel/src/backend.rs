//! The instruction sets a caller may choose from.
//!
//! This file and `error` name each other: a name may be no backend's, and an error names the backend.

use crate::KernelError;
use std::fmt;
use std::str::FromStr;

/// An instruction set that a caller may choose. All produce the same bits; forcing one is for tests and measurements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// The best this processor has.
    #[default]
    Auto,
    /// Plain Rust, as the compiler turns it into what the target always has.
    Portable,
    /// AVX2 and FMA.
    Avx2,
    /// AVX-512 F, BW, DQ and VL.
    Avx512,
    /// NEON.
    Neon,
}

impl Backend {
    pub(crate) const ALL: [(Backend, &'static str); 5] = [
        (Backend::Auto, "auto"),
        (Backend::Portable, "portable"),
        (Backend::Avx2, "avx2"),
        (Backend::Avx512, "avx512"),
        (Backend::Neon, "neon"),
    ];
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.into_iter().find(|(backend, _)| backend == self);
        f.write_str(name.map_or("", |(_, name)| name))
    }
}

impl FromStr for Backend {
    type Err = KernelError;

    /// Parses a backend's name. Fails for a name that is none of `auto`, `portable`, `avx2`, `avx512`, `neon`.
    fn from_str(text: &str) -> Result<Self, KernelError> {
        let found = Self::ALL.into_iter().find(|(_, name)| *name == text);
        found.map(|(backend, _)| backend).ok_or_else(|| KernelError::BackendName { got: text.to_owned() })
    }
}
