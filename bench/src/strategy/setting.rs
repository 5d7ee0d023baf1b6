//! A setting: which mechanism, for how many rounds and participations, and the loss to make small.

use std::fmt;
use std::str::FromStr;

use strategy::Participation;
use strategy::optimize::{Family, Objective, Target};

/// What is optimised, with its number of buffers or bands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Blt(usize),
    BandToeplitz(usize),
    BandMf(usize),
    /// `BandMf`, for which the peer takes its optimiser of dense matrices.
    DenseBands(usize),
    BandInverse(usize),
    Dense,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    Rms,
    Max,
}

/// Written as `blt-4,n=2052,b=342,k=6,max`; b and k are left out for single participation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    pub kind: Kind,
    /// Rounds.
    pub n: u64,
    /// Least distance j − i of one user's participations, and the most of them.
    pub b: u64,
    pub k: u64,
    pub loss: Loss,
}

impl Kind {
    /// As the peer's script knows it.
    pub fn family(self) -> &'static str {
        match self {
            Self::Blt(_) => "blt",
            Self::BandToeplitz(_) => "band-toeplitz",
            Self::BandMf(_) => "band-mf",
            Self::DenseBands(_) => "dense-bands",
            Self::BandInverse(_) => "band-inverse",
            Self::Dense => "dense",
        }
    }

    /// `None` for matrices with an entry of their own everywhere.
    pub fn size(self) -> Option<usize> {
        match self {
            Self::Blt(size)
            | Self::BandToeplitz(size)
            | Self::BandMf(size)
            | Self::DenseBands(size)
            | Self::BandInverse(size) => Some(size),
            Self::Dense => None,
        }
    }

    pub fn ours(self) -> Family {
        match self {
            Self::Blt(buffers) => Family::Blt { buffers },
            Self::BandToeplitz(bands) => Family::BandToeplitz { bands },
            Self::BandMf(bands) | Self::DenseBands(bands) => Family::BandMfByEpoch { bands },
            Self::BandInverse(bands) => Family::BandInverse { bands },
            Self::Dense => Family::Dense,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.size() {
            Some(size) => write!(f, "{}-{size}", self.family()),
            None => write!(f, "{}", self.family()),
        }
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = || {
            format!(
                "no mechanism {text:?}; allowed: dense, and blt, band-toeplitz, band-mf, dense-bands or \
                 band-inverse with their size, such as blt-4"
            )
        };
        if text == "dense" {
            return Ok(Self::Dense);
        }
        let (family, size) = text.rsplit_once('-').ok_or_else(refused)?;
        let size = size.parse().ok().filter(|&size| size > 0).ok_or_else(refused)?;
        match family {
            "blt" => Ok(Self::Blt(size)),
            "band-toeplitz" => Ok(Self::BandToeplitz(size)),
            "band-mf" => Ok(Self::BandMf(size)),
            "dense-bands" => Ok(Self::DenseBands(size)),
            "band-inverse" => Ok(Self::BandInverse(size)),
            _ => Err(refused()),
        }
    }
}

impl Loss {
    pub fn name(self) -> &'static str {
        match self {
            Self::Rms => "rms",
            Self::Max => "max",
        }
    }
}

impl Setting {
    /// Error: a rule that allows no participation.
    pub fn participation(&self) -> strategy::Result<Participation> {
        Participation::new(self.b, self.k)
    }

    /// Error: as `participation`.
    pub fn target(&self) -> strategy::Result<Target> {
        let objective = match self.loss {
            Loss::Rms => Objective::Rms,
            Loss::Max => Objective::Max,
        };
        Ok(Target::new(self.n, self.participation()?, objective))
    }

    /// Settings that the bench names itself.
    pub fn list(names: &str) -> anyhow::Result<Vec<Self>> {
        names.split_whitespace().map(|name| name.parse().map_err(anyhow::Error::msg)).collect()
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, n, b, k, loss } = self;
        write!(f, "{kind},n={n}")?;
        if *k > 1 {
            write!(f, ",b={b},k={k}")?;
        }
        write!(f, ",{}", loss.name())
    }
}

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(',');
        let kind: Kind = parts.next().unwrap_or_default().parse()?;
        let loss = if matches!(kind, Kind::Blt(_)) { Loss::Max } else { Loss::Rms };
        let mut setting = Self { kind, n: 0, b: 1, k: 1, loss };
        for part in parts {
            match part.split_once('=') {
                Some(("n", value)) => setting.n = rounds(value)?,
                Some(("b", value)) => setting.b = rounds(value)?,
                Some(("k", value)) => setting.k = rounds(value)?,
                None if part == "max" => setting.loss = Loss::Max,
                None if part == "rms" => setting.loss = Loss::Rms,
                _ => return Err(format!("{part:?} in {text:?}; allowed: n=…, b=…, k=…, max and rms")),
            }
        }
        if setting.n == 0 {
            return Err(format!("{text:?} has no n; such as {kind},n=1000"));
        }
        Ok(setting)
    }
}

fn rounds(text: &str) -> Result<u64, String> {
    crate::arguments::coordinates(text).map_err(|allowed| format!("{text:?}; {allowed}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_as_they_are_written() {
        for text in ["blt-4,n=2052,b=342,k=6,max", "dense,n=64,rms", "dense-bands-8,n=128,b=8,k=16,rms"] {
            assert_eq!(text.parse::<Setting>().unwrap().to_string(), text);
        }
        let short: Setting = "band-inverse-4,n=1e3".parse().unwrap();
        assert_eq!(short, "band-inverse-4,n=1000,b=1,k=1,rms".parse().unwrap());
    }

    #[test]
    fn what_can_not_be_read_is_named() {
        let refused = |text: &str| text.parse::<Setting>().unwrap_err();
        assert!(refused("blt,n=4").contains("no mechanism \"blt\"; allowed: dense"));
        assert!(refused("blt-0,n=4").contains("blt-0"));
        assert!(refused("blt-2").contains("has no n"));
        assert!(refused("blt-2,n=0").contains("\"0\"; allowed"));
        assert!(refused("blt-2,n=5,least").contains("\"least\""));
    }
}
