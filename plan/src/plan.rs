//! A plan that has been checked as a whole.

use std::path::Path;
use std::sync::Arc;

use strategy::Strategy;

use crate::file::PlanFile;
use crate::{
    Coefficients, GridPlan, Layout, Mechanism, Participation, PlanError, PlanSpec, Tree, check, conversion,
    round, stability,
};

/// A plan that has been checked as a whole and may run.
#[derive(Clone, Debug)]
pub struct Plan {
    spec: PlanSpec,
    coefficients: Arc<Coefficients>,
    strategy: Arc<Strategy>,
    on_grid: Option<Arc<GridPlan>>,
}

/// All else follows from the fields, so plans are equal where their fields are.
impl PartialEq for Plan {
    fn eq(&self, other: &Self) -> bool {
        self.spec == other.spec
    }
}

impl Plan {
    /// Checks every field, rounds the coefficients, and checks that no row of noise leaves `f32`, or 32 bits on a grid.
    ///
    /// # Errors
    /// [`PlanError::Field`] or [`PlanError::Missing`], naming the field, its value and what is allowed.
    pub fn new(spec: PlanSpec) -> Result<Self, PlanError> {
        check::spec(&spec)?;
        let strategy = Arc::new(conversion::strategy(&spec.mechanism)?);
        let coefficients = Arc::new(round::coefficients(&spec.mechanism, spec.iterations)?);
        stability::check(
            &coefficients,
            spec.iterations,
            round::scale(spec.noise_multiplier, spec.clip_norm),
        )?;
        let on_grid = spec.grid.map(|grid| GridPlan::new(&spec, grid, &strategy)).transpose()?.map(Arc::new);
        Ok(Self { spec, coefficients, strategy, on_grid })
    }

    /// Reads and checks the text of a plan.toml.
    ///
    /// # Errors
    /// [`PlanError::Syntax`] for text that is not a plan, else as [`Plan::new`].
    pub fn from_toml_str(text: &str) -> Result<Self, PlanError> {
        let file: PlanFile = toml::from_str(text)?;
        Self::new(file.into_spec()?)
    }

    /// Reads and checks a plan.toml.
    ///
    /// # Errors
    /// [`PlanError::Read`] where the file can't be read, else as [`Plan::from_toml_str`].
    pub fn from_path(path: impl AsRef<Path>) -> Result<Self, PlanError> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path)
            .map_err(|source| PlanError::Read { path: path.to_owned(), source })?;
        Self::from_toml_str(&text)
    }

    /// Returns the plan as TOML; read again, it is an equal plan, bit for bit.
    ///
    /// # Errors
    /// [`PlanError::Write`] where TOML can't hold the plan.
    pub fn to_toml_string(&self) -> Result<String, PlanError> {
        Ok(toml::to_string(&PlanFile::from_spec(&self.spec))?)
    }

    /// Returns the fields.
    pub fn spec(&self) -> &PlanSpec {
        &self.spec
    }

    /// Returns n: rows are numbered 0..n.
    pub fn iterations(&self) -> u64 {
        self.spec.iterations
    }

    /// Returns the rounds of ChaCha, 20 or 12.
    pub fn chacha_rounds(&self) -> u32 {
        self.spec.chacha_rounds
    }

    /// Returns σ, in units of the clip norm; it scales Z, before C⁻¹. Accounts use
    /// [`Plan::accounted_noise_multiplier`] instead.
    pub fn noise_multiplier(&self) -> f64 {
        self.spec.noise_multiplier
    }

    /// Returns the σ that privacy is computed with: σ, or [`Plan::scale`]/ζ where `f32` rounded the scale down. Its
    /// product with ζ is never above the scale. On a grid it is [`GridFigures::noise_multiplier`](crate::GridFigures).
    pub fn accounted_noise_multiplier(&self) -> f64 {
        if let Some(on_grid) = &self.on_grid {
            return on_grid.figures().noise_multiplier;
        }
        round::accounted_noise_multiplier(self.spec.noise_multiplier, self.spec.clip_norm)
    }

    /// Returns the plan's grid with its coefficients and figures; `None` for a plan whose rows are `f32`.
    pub fn on_grid(&self) -> Option<&GridPlan> {
        self.on_grid.as_deref()
    }

    /// Returns τ, the probability with which a run leaves the mechanism that is accounted for, whichever the data: δ grows
    /// by τ(1 + e^ε). It is 0 without a grid: the arithmetic of floating-point rows is not accounted for at all.
    pub fn failure_probability(&self) -> f64 {
        self.on_grid().map_or(0.0, |on_grid| on_grid.figures().failure())
    }

    /// Returns ζ, in the gradient's own units.
    pub fn clip_norm(&self) -> f64 {
        self.spec.clip_norm
    }

    /// Returns the rounds one user may take part in; `min_sep` counts j − i ≥ b.
    pub fn participation(&self) -> Participation {
        self.spec.participation
    }

    /// Returns the mechanism with its parameters.
    pub fn mechanism(&self) -> &Mechanism {
        &self.spec.mechanism
    }

    /// Returns the layout of the flattened vector, where the plan has one.
    pub fn layout(&self) -> Option<&Layout> {
        self.spec.layout.as_ref()
    }

    /// Returns σζ rounded once to `f32`, the factor of the rows of C⁻¹Z. It is 0 only where σ is 0.
    pub fn scale(&self) -> f32 {
        round::scale(self.spec.noise_multiplier, self.spec.clip_norm)
    }

    /// Returns the coefficients that the kernel and the oracle make rows of `f32` with.
    ///
    /// # Errors
    /// [`PlanError::GridRows`] for a plan on a grid, whose rows are integers: as `f32` they would not keep what its account
    /// says.
    pub fn coefficients(&self) -> Result<Coefficients, PlanError> {
        self.float_rows()?;
        Ok(self.coefficients.as_ref().clone())
    }

    /// Checks that the plan's rows are `f32`, for whatever hands out no others.
    ///
    /// # Errors
    /// [`PlanError::GridRows`] for a plan on a grid.
    pub fn float_rows(&self) -> Result<(), PlanError> {
        if self.on_grid.is_some() { Err(PlanError::GridRows) } else { Ok(()) }
    }

    /// The coefficients and the strategy, borrowed.
    pub(crate) fn parts(&self) -> (&Coefficients, &Strategy) {
        (&self.coefficients, &self.strategy)
    }

    /// Returns the trees, one for each segment between restarts; `None` for another mechanism.
    pub fn tree(&self) -> Option<Tree> {
        match self.coefficients.as_ref() {
            Coefficients::Tree(tree) => Some(tree.clone()),
            _ => None,
        }
    }

    /// Returns C in `f64`, for sensitivity and error.
    pub fn strategy(&self) -> Strategy {
        self.strategy.as_ref().clone()
    }

    /// Returns the number of `f32` of state that a worker keeps for each coordinate, as `noise_kernel::Generator`
    /// lays them out.
    pub fn state_slots(&self) -> usize {
        let slots = round::state_slots(&self.coefficients, self.spec.iterations);
        self.on_grid().map_or(slots, |on_grid| on_grid.state_slots(slots))
    }

    /// Returns the text that [`Plan::digest`] is taken of: everything but the layout, as `canonical.rs` describes it.
    pub fn canonical_form(&self) -> String {
        self.spec.canonical().text()
    }

    /// Returns the SHA-256 of the canonical form. It covers everything but the layout, and is bound into every key.
    pub fn digest(&self) -> [u8; 32] {
        self.spec.canonical().digest()
    }
}
