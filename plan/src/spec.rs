//! A plan: the checked whole, and the fields it is made from.

use std::path::Path;
use std::sync::Arc;

use strategy::Strategy;

use crate::canonical::Canonical;
use crate::file::PlanFile;
use crate::{Coefficients, Layout, Mechanism, PlanError, Tree, check, round, strategies};

/// The version of plan.toml this build reads and writes.
pub const FORMAT: u32 = 1;

/// The version of the noise stream this build makes; `docs/noise-stream.md` says what its bits are.
pub const STREAM_VERSION: u32 = 2;

/// Which rounds one user may take part in: rounds i < j of one user satisfy **j − i ≥ `min_sep`** (others count
/// j − i − 1), and there are at most `max_participations` of them. Both are at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Participation {
    pub min_sep: u64,
    pub max_participations: u64,
}

/// The fields of a plan, not yet checked.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanSpec {
    /// Rounds of the stream cipher: 20 or 12.
    pub chacha_rounds: u32,
    /// n, rows: row n and beyond are refused.
    pub iterations: u64,
    /// σ ≥ 0, in units of the clip norm.
    pub noise_multiplier: f64,
    /// ζ > 0, in the gradient's own units.
    pub clip_norm: f64,
    pub participation: Participation,
    pub mechanism: Mechanism,
    pub layout: Option<Layout>,
}

/// A plan that has been checked wholly and may run.
#[derive(Clone, Debug)]
pub struct Plan {
    spec: PlanSpec,
    coefficients: Arc<Coefficients>,
    strategy: Arc<Strategy>,
}

/// All else follows from the fields, so plans are equal where their fields are.
impl PartialEq for Plan {
    fn eq(&self, other: &Self) -> bool {
        self.spec == other.spec
    }
}

impl Plan {
    /// Checks every field and rounds the coefficients. Errors name the field, its value and what is allowed.
    pub fn new(spec: PlanSpec) -> Result<Self, PlanError> {
        check::spec(&spec)?;
        let strategy = Arc::new(strategies::strategy(&spec)?);
        let coefficients = Arc::new(round::coefficients(&spec)?);
        Ok(Self { spec, coefficients, strategy })
    }

    /// Reads and checks the text of a plan.toml.
    pub fn from_toml_str(text: &str) -> Result<Self, PlanError> {
        let file: PlanFile = toml::from_str(text)?;
        Self::new(file.into_spec()?)
    }

    /// Reads and checks a plan.toml.
    pub fn from_path(path: impl AsRef<Path>) -> Result<Self, PlanError> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path)
            .map_err(|source| PlanError::Read { path: path.to_owned(), source })?;
        Self::from_toml_str(&text)
    }

    /// The plan as TOML; read again it gives an equal plan, bit for bit.
    pub fn to_toml_string(&self) -> Result<String, PlanError> {
        Ok(toml::to_string(&PlanFile::from_spec(&self.spec))?)
    }

    /// The fields.
    pub fn spec(&self) -> &PlanSpec {
        &self.spec
    }

    /// n: rows are numbered 0..n.
    pub fn iterations(&self) -> u64 {
        self.spec.iterations
    }

    /// 20 or 12.
    pub fn chacha_rounds(&self) -> u32 {
        self.spec.chacha_rounds
    }

    /// σ, in units of the clip norm; it scales Z, before C⁻¹. What a run costs is up to
    /// [`Plan::accounted_noise_multiplier`].
    pub fn noise_multiplier(&self) -> f64 {
        self.spec.noise_multiplier
    }

    /// The σ that privacy is worked out with: σ, or what [`Plan::scale`] is of ζ where `f32` rounded that down. Its
    /// product with ζ is never above the scale.
    pub fn accounted_noise_multiplier(&self) -> f64 {
        round::accounted_noise_multiplier(&self.spec)
    }

    /// ζ, in the gradient's own units.
    pub fn clip_norm(&self) -> f64 {
        self.spec.clip_norm
    }

    /// Who may take part when; `min_sep` counts j − i ≥ b.
    pub fn participation(&self) -> Participation {
        self.spec.participation
    }

    pub fn mechanism(&self) -> &Mechanism {
        &self.spec.mechanism
    }

    /// The flattened vector, where the plan says.
    pub fn layout(&self) -> Option<&Layout> {
        self.spec.layout.as_ref()
    }

    /// σζ rounded once to `f32`: what rows of C⁻¹Z are multiplied by. 0 only where σ is 0.
    pub fn scale(&self) -> f32 {
        round::scale(&self.spec)
    }

    /// What the kernel and the oracle run with.
    pub fn coefficients(&self) -> Coefficients {
        self.coefficients.as_ref().clone()
    }

    /// As [`Plan::coefficients`], borrowed.
    pub(crate) fn rounded(&self) -> &Coefficients {
        &self.coefficients
    }

    /// The trees, one a segment between restarts; `None` for another mechanism.
    pub fn tree(&self) -> Option<Tree> {
        match self.coefficients.as_ref() {
            Coefficients::Tree(tree) => Some(tree.clone()),
            _ => None,
        }
    }

    /// C in `f64`, for sensitivity and error.
    pub fn strategy(&self) -> Strategy {
        self.strategy.as_ref().clone()
    }

    /// `f32` numbers of state that a worker keeps for each coordinate, as `noise_kernel::Generator` lays them out.
    pub fn state_slots(&self) -> usize {
        round::state_slots(&self.coefficients, self.spec.iterations)
    }

    /// The text that [`Plan::digest`] is taken of: everything but the layout, as described in `canonical.rs`.
    pub fn canonical_form(&self) -> String {
        self.canonical().text()
    }

    /// SHA-256 of the canonical form. It covers everything but the layout, and is bound into every key.
    pub fn digest(&self) -> [u8; 32] {
        self.canonical().digest()
    }

    fn canonical(&self) -> Canonical {
        let spec = &self.spec;
        let mut canonical = Canonical::new("rustle plan 1");
        canonical.integer("format", FORMAT.into());
        canonical.integer("stream_version", STREAM_VERSION.into());
        canonical.integer("chacha_rounds", spec.chacha_rounds.into());
        canonical.integer("iterations", spec.iterations);
        canonical.number("noise_multiplier", spec.noise_multiplier);
        canonical.number("clip_norm", spec.clip_norm);
        canonical.integer("participation.min_sep", spec.participation.min_sep);
        canonical.integer("participation.max_participations", spec.participation.max_participations);
        canonical.name("mechanism.name", spec.mechanism.name());
        match &spec.mechanism {
            Mechanism::Identity => {}
            Mechanism::Tree { restarts, completion } => {
                canonical.integers("mechanism.restarts", restarts);
                canonical.truth("mechanism.completion", *completion);
            }
            Mechanism::Blt { theta, omega } => {
                canonical.numbers("mechanism.theta", theta);
                canonical.numbers("mechanism.omega", omega);
            }
            Mechanism::BandToeplitz { coefficients, column_normalised } => {
                canonical.numbers("mechanism.coefficients", coefficients);
                canonical.truth("mechanism.column_normalised", *column_normalised);
            }
            Mechanism::BandMf { columns } => canonical.number_rows("mechanism.columns", columns),
            Mechanism::BandSqrt { bands } | Mechanism::BandInverseSqrt { bands } => {
                canonical.integer("mechanism.bands", *bands);
            }
            Mechanism::BandInverse { coefficients } => {
                canonical.numbers("mechanism.coefficients", coefficients)
            }
            Mechanism::LambdaCgd { lambda } => canonical.number("mechanism.lambda", *lambda),
            Mechanism::Dense { matrix } => canonical.number_rows("mechanism.matrix", matrix),
        }
        canonical
    }
}
