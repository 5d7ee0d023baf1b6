//! The mechanisms by name: the one list that strategies, optimizers, plans and command lines share.

/// A mechanism without its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MechanismKind {
    /// Independent noise, C = I.
    Identity,
    /// A binary tree with Honaker's estimate.
    Tree,
    /// Buffered linear Toeplitz.
    Blt,
    /// A banded Toeplitz C.
    BandToeplitz,
    /// A banded C with free columns.
    BandMf,
    /// The banded square root of prefix sums.
    BandSqrt,
    /// A banded Toeplitz C⁻¹.
    BandInverse,
    /// The banded inverse square root of prefix sums.
    BandInverseSqrt,
    /// C⁻¹ with the first column (1, −λ).
    LambdaCgd,
    /// Any lower triangular C.
    Dense,
}

impl MechanismKind {
    /// Every kind, in the order of the guide.
    pub const ALL: [Self; 10] = [
        Self::Identity,
        Self::Tree,
        Self::Blt,
        Self::BandToeplitz,
        Self::BandMf,
        Self::BandSqrt,
        Self::BandInverse,
        Self::BandInverseSqrt,
        Self::LambdaCgd,
        Self::Dense,
    ];

    /// The names of [`Self::ALL`].
    pub const NAMES: [&'static str; 10] = {
        let mut names = [""; 10];
        let mut at = 0;
        while at < names.len() {
            names[at] = Self::ALL[at].name();
            at += 1;
        }
        names
    };

    /// Returns the name in plan.toml and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Tree => "tree",
            Self::Blt => "blt",
            Self::BandToeplitz => "band-toeplitz",
            Self::BandMf => "band-mf",
            Self::BandSqrt => "band-sqrt",
            Self::BandInverse => "band-inverse",
            Self::BandInverseSqrt => "band-inverse-sqrt",
            Self::LambdaCgd => "lambda-cgd",
            Self::Dense => "dense",
        }
    }

    /// Returns the kind with this name, `None` where there is none.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_leads_back_to_its_kind() {
        for (kind, name) in MechanismKind::ALL.into_iter().zip(MechanismKind::NAMES) {
            assert_eq!(MechanismKind::from_name(name), Some(kind));
        }
        assert_eq!(MechanismKind::from_name("blts"), None);
    }
}
