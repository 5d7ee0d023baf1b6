//! The message that every process of a launch sends first, to all others: 192 bytes, little-endian (docs/mpi.md).

use proto::{CoordinateRange, ElementType, JobId, Result, ServiceError};
use sha2::{Digest, Sha256};

use crate::{watermark_exchange::EXCHANGE_VERSION, wire::VERSION};

/// The length of a handshake in bytes.
pub const BYTES: usize = 192;
const MAGIC: &[u8; 8] = b"RUSTLEMP";

/// The role of a process in a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A noise rank, which owns a shard. The first noise rank has the ledger as well.
    Noise,
    /// A training rank, which requests rows.
    Training,
}

/// The properties that a process reports of itself. Fields that do not concern a training rank are 0 there; a plan digest or a dimension
/// that it sets must be the job's.
#[derive(Clone, Debug, PartialEq)]
pub struct Handshake {
    /// The version of the control messages ([`VERSION`]).
    pub version: u32,
    /// The role of the process.
    pub role: Role,
    /// The version of the noise stream.
    pub stream_version: u32,
    /// The version of what noise ranks exchange before they serve ([`EXCHANGE_VERSION`]); 0 for a training rank, which does
    /// not take part.
    pub noise_version: u32,
    /// The number of coordinates of the job.
    pub dimension: u64,
    /// The digest of the job's plan.
    pub plan_digest: [u8; 32],
    /// The commitment to the job's key; zeros where the first noise rank sends the key to the others.
    pub key_commitment: [u8; 32],
    /// The SHA-256 of the job's name.
    pub job: [u8; 32],
    /// The number of rows of the job.
    pub iterations: u64,
    /// The bytes that a training rank lends for rows to be placed in.
    pub window_bytes: u64,
    /// The type of the job's rows; f32 of a training rank, which says nothing of it.
    pub element: ElementType,
}

impl Handshake {
    /// Returns the SHA-256 of a job's name.
    pub fn job_digest(job: &JobId) -> [u8; 32] {
        Sha256::digest(job.as_str()).into()
    }

    /// Returns the handshake of a noise rank whose job is still to be filled in.
    pub fn noise() -> Self {
        Self { role: Role::Noise, noise_version: EXCHANGE_VERSION, ..Self::training(0) }
    }

    /// Returns the handshake of a training rank that accepts any job.
    pub fn training(window_bytes: u64) -> Self {
        Self {
            version: VERSION.into(),
            role: Role::Training,
            stream_version: noise_kernel::STREAM_VERSION,
            noise_version: 0,
            dimension: 0,
            plan_digest: [0; 32],
            key_commitment: [0; 32],
            job: [0; 32],
            iterations: 0,
            window_bytes,
            element: ElementType::F32,
        }
    }

    /// Returns the 192 bytes of the handshake.
    pub fn encode(&self) -> Vec<u8> {
        let role: u32 = if self.role == Role::Noise { 1 } else { 2 };
        let mut bytes = Vec::with_capacity(BYTES);
        bytes.extend(MAGIC);
        for number in [self.version, role, self.stream_version, self.noise_version] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(self.dimension.to_le_bytes());
        for digest in [&self.plan_digest, &self.key_commitment, &self.job] {
            bytes.extend(digest);
        }
        for number in [self.iterations, self.window_bytes] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(i32::from(self.element).to_le_bytes());
        bytes.resize(BYTES, 0);
        bytes
    }

    /// Reads a handshake. Fails where the bytes are not those of a Rustle process.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let not_ours = |what: &str| ServiceError::invalid("handshake", what, "that of a Rustle process");
        let bytes: &[u8; BYTES] = bytes.try_into().map_err(|_| not_ours("of another length"))?;
        if &bytes[..8] != MAGIC {
            return Err(not_ours("without RUSTLEMP"));
        }
        let [version, role, stream_version, noise_version] =
            [8, 12, 16, 20].map(|at| u32::from_le_bytes(array(bytes, at)));
        let [dimension, iterations, window_bytes] =
            [24, 128, 136].map(|at| u64::from_le_bytes(array(bytes, at)));
        let role = match role {
            1 => Role::Noise,
            2 => Role::Training,
            other => return Err(ServiceError::invalid("role", other, "1 (noise) or 2 (training)")),
        };
        let element = i32::from_le_bytes(array(bytes, 144)).try_into()?;
        let [plan_digest, key_commitment, job] = [32, 64, 96].map(|at| array(bytes, at));
        Ok(Self {
            version,
            role,
            stream_version,
            noise_version,
            dimension,
            plan_digest,
            key_commitment,
            job,
            iterations,
            window_bytes,
            element,
        })
    }

    /// Returns why processes with these handshakes, in order of their ranks, can't form a launch; `None` where they can.
    pub fn disagreement(handshakes: &[Self]) -> Option<String> {
        let Some(first) = handshakes.iter().position(|handshake| handshake.role == Role::Noise) else {
            return Some(
                "no rank of this launch is a noise rank; start some by `noise-worker mpi --serve`".into(),
            );
        };
        let root = &handshakes[first];
        handshakes.iter().enumerate().find_map(|(rank, handshake)| {
            let differs = |what: &str, own: String, roots: String| {
                Some(format!("rank {rank} has {what} {own}, rank {first} has {roots}"))
            };
            let number = |what, own: u64, roots: u64| differs(what, own.to_string(), roots.to_string());
            let digest =
                |what, own: &[u8; 32], roots: &[u8; 32]| differs(what, hex::encode(own), hex::encode(roots));
            let is_noise = handshake.role == Role::Noise;
            if handshake.version != root.version {
                return number("version of the protocol", handshake.version.into(), root.version.into());
            }
            if is_noise && handshake.stream_version != root.stream_version {
                let own = handshake.stream_version.into();
                return number("version of the noise stream", own, root.stream_version.into());
            }
            if is_noise && handshake.noise_version != root.noise_version {
                let own = handshake.noise_version.into();
                return number("version of what noise ranks exchange", own, root.noise_version.into());
            }
            if handshake.plan_digest != root.plan_digest && (is_noise || handshake.plan_digest != [0; 32]) {
                return digest("the plan", &handshake.plan_digest, &root.plan_digest);
            }
            if handshake.dimension != root.dimension && (is_noise || handshake.dimension != 0) {
                return number("dimension", handshake.dimension, root.dimension);
            }
            if is_noise && handshake.key_commitment != root.key_commitment {
                return digest("the key with commitment", &handshake.key_commitment, &root.key_commitment);
            }
            if is_noise && handshake.job != root.job {
                return differs("another job", String::new(), "its own".into());
            }
            None
        })
    }
}

/// Returns the ranges of `count` noise ranks, in order: cut at multiples of 512, in sizes that differ by one block at most.
/// Fails where there are fewer blocks than ranks.
pub fn ranges(dimension: u64, count: usize) -> Result<Vec<CoordinateRange>> {
    let block = noise_kernel::BLOCK as u64;
    let blocks = dimension.div_ceil(block);
    let count = count as u64;
    if !(1..=blocks).contains(&count) {
        let allowed =
            format!("1 to {blocks} for dimension {dimension} (a rank needs a block of {block} coordinates)");
        return Err(ServiceError::invalid("noise ranks", count, allowed));
    }
    let bound = |rank: u64| {
        let first = (u128::from(blocks) * u128::from(rank) / u128::from(count)) as u64;
        first.saturating_mul(block).min(dimension)
    };
    (0..count).map(|rank| CoordinateRange::new(bound(rank), bound(rank + 1))).collect()
}

fn array<const N: usize>(bytes: &[u8; BYTES], at: usize) -> [u8; N] {
    std::array::from_fn(|index| bytes[at + index])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise() -> Handshake {
        let job = Handshake::job_digest(&JobId::new("j").unwrap());
        Handshake {
            dimension: 1000,
            plan_digest: [1; 32],
            key_commitment: [2; 32],
            job,
            iterations: 9,
            element: ElementType::I32,
            ..Handshake::noise()
        }
    }

    #[test]
    fn handshakes_survive_the_wire() {
        for handshake in [noise(), Handshake::training(1 << 40)] {
            assert_eq!(Handshake::decode(&handshake.encode()).unwrap(), handshake);
        }
        for bad in [vec![], vec![0; BYTES], [b"RUSTLEMP".as_slice(), &[0; 184]].concat()] {
            assert!(Handshake::decode(&bad).is_err());
        }
    }

    #[test]
    fn who_differs_is_named() {
        type Change = fn(&mut Handshake);
        let changes: [(&str, Change); 7] = [
            ("version of the protocol", |handshake| handshake.version += 1),
            ("version of the noise stream", |handshake| handshake.stream_version += 1),
            ("version of what noise ranks exchange", |handshake| handshake.noise_version = 0),
            ("the plan", |handshake| handshake.plan_digest = [7; 32]),
            ("dimension", |handshake| handshake.dimension += 1),
            ("the key", |handshake| handshake.key_commitment = [7; 32]),
            ("another job", |handshake| handshake.job = [7; 32]),
        ];
        for (word, change) in changes {
            let mut other = noise();
            change(&mut other);
            let difference = Handshake::disagreement(&[Handshake::training(0), noise(), other]).unwrap();
            assert!(difference.contains(word), "{difference}");
            assert!(difference.contains("rank 2") && difference.contains("rank 1"), "{difference}");
        }
        assert_eq!(Handshake::disagreement(&[Handshake::training(0), noise(), noise()]), None);
        assert!(Handshake::disagreement(&[Handshake::training(0)]).unwrap().contains("no rank"));
        let of_another = Handshake { plan_digest: [9; 32], ..Handshake::training(0) };
        assert!(Handshake::disagreement(&[noise(), of_another]).unwrap().contains("the plan"));
    }

    #[test]
    fn ranges_tile_the_vector_in_whole_blocks() {
        for (dimension, count) in [(1, 1), (512, 1), (513, 2), (3_700, 7), (3_700, 8), (u64::MAX >> 1, 5)] {
            let ranges = ranges(dimension, count).unwrap();
            assert_eq!((ranges[0].start, ranges[count - 1].end), (0, dimension));
            assert!(ranges.windows(2).all(|pair| pair[0].end == pair[1].start && pair[0].end % 512 == 0));
        }
        assert!(ranges(3_700, 9).unwrap_err().to_string().contains("1 to 8"));
    }
}
