//! A plan that has been checked as a whole.

use std::path::Path;
use std::sync::Arc;

use strategy::Strategy;

use crate::file::PlanFile;
use crate::{
    Coefficients, Layout, Mechanism, Participation, PlanError, PlanSpec, Tree, check, conversion, round,
};

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
        let strategy = Arc::new(conversion::strategy(&spec.mechanism)?);
        let coefficients = Arc::new(round::coefficients(&spec.mechanism, spec.iterations)?);
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
        round::accounted_noise_multiplier(self.spec.noise_multiplier, self.spec.clip_norm)
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
        round::scale(self.spec.noise_multiplier, self.spec.clip_norm)
    }

    /// What the kernel and the oracle run with.
    pub fn coefficients(&self) -> Coefficients {
        self.coefficients.as_ref().clone()
    }

    /// The coefficients and the strategy, borrowed.
    pub(crate) fn parts(&self) -> (&Coefficients, &Strategy) {
        (&self.coefficients, &self.strategy)
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
        self.spec.canonical().text()
    }

    /// SHA-256 of the canonical form. It covers everything but the layout, and is bound into every key.
    pub fn digest(&self) -> [u8; 32] {
        self.spec.canonical().digest()
    }
}
