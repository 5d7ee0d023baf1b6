//! What every process of a launch says first, to all others: 192 bytes, little-endian (docs/mpi.md).

use proto::{CoordinateRange, JobId, Result, ServiceError};
use sha2::{Digest, Sha256};

use super::{message::VERSION, told::NOISE_VERSION};

pub const BYTES: usize = 192;
const MAGIC: &[u8; 8] = b"RUSTLEMP";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Owns a shard; the first of them keeps the ledger.
    Noise,
    Training,
}

/// Fields that a training rank has no say in are 0 there; a plan digest or a dimension that it gives must be the job's.
#[derive(Clone, Debug, PartialEq)]
pub struct Hello {
    pub version: u32,
    pub role: Role,
    pub stream_version: u32,
    /// Of what noise ranks say among themselves before they serve; 0 of a training rank, which hears none of it.
    pub noise_version: u32,
    pub dimension: u64,
    pub plan_digest: [u8; 32],
    /// Zeros where the first noise rank gives the key to the others.
    pub key_commitment: [u8; 32],
    /// SHA-256 of the job's name.
    pub job: [u8; 32],
    pub iterations: u64,
    /// That a training rank lends for rows to be placed in.
    pub window_bytes: u64,
}

impl Hello {
    pub fn of_job(job: &JobId) -> [u8; 32] {
        Sha256::digest(job.as_str()).into()
    }

    /// A noise rank that has said nothing else.
    pub fn noise() -> Self {
        Self { role: Role::Noise, noise_version: NOISE_VERSION, ..Self::training(0) }
    }

    /// A training rank that takes whatever job there is.
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
        }
    }

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
        bytes.resize(BYTES, 0);
        bytes
    }

    /// Error: no process of Rustle said this.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let not_ours = |what: &str| ServiceError::invalid("first words", what, "those of a Rustle process");
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
        })
    }

    /// Why these ranks can't go together; `None` where they can. By rank.
    pub fn disagreement(hellos: &[Self]) -> Option<String> {
        let Some(first) = hellos.iter().position(|hello| hello.role == Role::Noise) else {
            return Some(
                "no rank of this launch is a noise rank; start some by `noise-worker mpi --serve`".into(),
            );
        };
        let root = &hellos[first];
        hellos.iter().enumerate().find_map(|(rank, hello)| {
            let differs = |what: &str, own: String, roots: String| {
                Some(format!("rank {rank} has {what} {own}, rank {first} has {roots}"))
            };
            let number = |what, own: u64, roots: u64| differs(what, own.to_string(), roots.to_string());
            let digest =
                |what, own: &[u8; 32], roots: &[u8; 32]| differs(what, hex::encode(own), hex::encode(roots));
            let is_noise = hello.role == Role::Noise;
            match () {
                () if hello.version != root.version => {
                    number("version of the protocol", hello.version.into(), root.version.into())
                }
                () if is_noise && hello.stream_version != root.stream_version => number(
                    "version of the noise stream",
                    hello.stream_version.into(),
                    root.stream_version.into(),
                ),
                () if is_noise && hello.noise_version != root.noise_version => number(
                    "version of what noise ranks say",
                    hello.noise_version.into(),
                    root.noise_version.into(),
                ),
                () if hello.plan_digest != root.plan_digest && (is_noise || hello.plan_digest != [0; 32]) => {
                    digest("the plan", &hello.plan_digest, &root.plan_digest)
                }
                () if hello.dimension != root.dimension && (is_noise || hello.dimension != 0) => {
                    number("dimension", hello.dimension, root.dimension)
                }
                () if is_noise && hello.key_commitment != root.key_commitment => {
                    digest("the key with commitment", &hello.key_commitment, &root.key_commitment)
                }
                () if is_noise && hello.job != root.job => {
                    differs("another job", String::new(), "its own".into())
                }
                () => None,
            }
        })
    }
}

/// The ranges of `count` noise ranks, in order: cut at multiples of 512, in sizes that differ by one block at most.
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

    fn noise() -> Hello {
        let job = Hello::of_job(&JobId::new("j").unwrap());
        Hello {
            dimension: 1000,
            plan_digest: [1; 32],
            key_commitment: [2; 32],
            job,
            iterations: 9,
            ..Hello::noise()
        }
    }

    #[test]
    fn first_words_survive_the_wire() {
        for hello in [noise(), Hello::training(1 << 40)] {
            assert_eq!(Hello::decode(&hello.encode()).unwrap(), hello);
        }
        for bad in [vec![], vec![0; BYTES], [b"RUSTLEMP".as_slice(), &[0; 184]].concat()] {
            assert!(Hello::decode(&bad).is_err());
        }
    }

    #[test]
    fn who_differs_is_named() {
        type Change = fn(&mut Hello);
        let changes: [(&str, Change); 7] = [
            ("version of the protocol", |hello| hello.version += 1),
            ("version of the noise stream", |hello| hello.stream_version += 1),
            ("version of what noise ranks say", |hello| hello.noise_version = 0),
            ("the plan", |hello| hello.plan_digest = [7; 32]),
            ("dimension", |hello| hello.dimension += 1),
            ("the key", |hello| hello.key_commitment = [7; 32]),
            ("another job", |hello| hello.job = [7; 32]),
        ];
        for (word, change) in changes {
            let mut other = noise();
            change(&mut other);
            let said = Hello::disagreement(&[Hello::training(0), noise(), other]).unwrap();
            assert!(said.contains(word) && said.contains("rank 2") && said.contains("rank 1"), "{said}");
        }
        assert_eq!(Hello::disagreement(&[Hello::training(0), noise(), noise()]), None);
        assert!(Hello::disagreement(&[Hello::training(0)]).unwrap().contains("no rank"));
        let of_another = Hello { plan_digest: [9; 32], ..Hello::training(0) };
        assert!(Hello::disagreement(&[noise(), of_another]).unwrap().contains("the plan"));
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
