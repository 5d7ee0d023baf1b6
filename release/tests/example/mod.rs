//! The plan and the nonces of the jobs of these tests.

use proto::Nonce;

/// A plan of ten rows of independent noise.
pub const PLAN: &str = "\
format = 1
stream_version = 3
chacha_rounds = 20
iterations = 10
noise_multiplier = 1.0
clip_norm = 1.0

[participation]
min_sep = 1
max_participations = 1

[mechanism]
name = \"identity\"
";

pub const NONCE: Nonce = Nonce::from_bytes([3; 32]);
pub const NEW_NONCE: Nonce = Nonce::from_bytes([4; 32]);
