//! `rustle.Plan`: what noise a job gets, checked wholly when it is made.

use std::io::Write;

use accounting::Report;
use plan::{Layout, Mechanism, Parameter, PlanSpec, Rounding, grid};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use report::GridFacts;
use tempfile::NamedTempFile;

use crate::arguments;
use crate::error::{Refused, Result};
use crate::plan_file;

#[pyclass(frozen, module = "rustle._native")]
pub struct Plan(pub plan::Plan);

#[pymethods]
impl Plan {
    #[staticmethod]
    fn load(path: &Bound<'_, PyAny>) -> Result<Self> {
        Ok(Self(plan_file::read(&arguments::path("path", path)?)?))
    }

    #[staticmethod]
    fn from_toml(text: &Bound<'_, PyAny>) -> Result<Self> {
        Ok(Self(plan::Plan::from_toml_str(&arguments::text("text", text)?)?))
    }

    fn to_toml(&self) -> Result<String> {
        Ok(self.0.to_toml_string()?)
    }

    /// All of the file or nothing; its folder is made where it is missing.
    fn save(&self, path: &Bound<'_, PyAny>) -> Result<()> {
        let path = arguments::path("path", path)?;
        let text = self.0.to_toml_string()?;
        let failed = |error: std::io::Error| {
            let allowed = "a file that may be written, in a folder that is made where it is missing";
            Refused::Here("plan", format!("{}: {error}; allowed: {allowed}", path.display()))
        };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(".".as_ref());
        std::fs::create_dir_all(folder).map_err(failed)?;
        let mut file = NamedTempFile::new_in(folder).map_err(failed)?;
        file.write_all(text.as_bytes()).and_then(|()| file.as_file().sync_all()).map_err(failed)?;
        use std::os::unix::fs::PermissionsExt;
        let readable = std::fs::Permissions::from_mode(0o644);
        file.as_file().set_permissions(readable).map_err(failed)?;
        file.persist(&path).map_err(|error| failed(error.error))?;
        Ok(())
    }

    /// With another σ, clip norm or layout; on a grid another σ or clip norm has a step of its own. `parameters`: names with shapes.
    #[pyo3(signature = (noise_multiplier=None, clip_norm=None, dimension=None, parameters=None))]
    fn replace(
        &self,
        noise_multiplier: Option<Bound<'_, PyAny>>,
        clip_norm: Option<Bound<'_, PyAny>>,
        dimension: Option<Bound<'_, PyAny>>,
        parameters: Option<Bound<'_, PyAny>>,
    ) -> Result<Self> {
        let number = |name, value: Bound<'_, PyAny>| arguments::number(name, &value);
        let noise_multiplier = noise_multiplier.map(|value| number("noise_multiplier", value)).transpose()?;
        let clip_norm = clip_norm.map(|value| number("clip_norm", value)).transpose()?;
        let dimension = dimension.map(|value| arguments::count("dimension", &value)).transpose()?;
        let parameters = parameters.map(|value| arguments::parameters(&value)).transpose()?;
        let old = self.0.spec().clone();
        let layout = layout(dimension, parameters)?.or(old.layout);
        let is_scaled = noise_multiplier.is_some() || clip_norm.is_some();
        let noise_multiplier = noise_multiplier.unwrap_or(old.noise_multiplier);
        let clip_norm = clip_norm.unwrap_or(old.clip_norm);
        let mut spec = PlanSpec { noise_multiplier, clip_norm, layout, ..old };
        if let (true, Some(grid)) = (is_scaled, spec.grid) {
            spec.grid = None;
            spec.grid = Some(grid::choose(&spec, Some(grid.rounding), Some(grid.summing_error))?);
        }
        Ok(Self(plan::Plan::new(spec)?))
    }

    /// On the finest grid of integers that fits: with another one where it has one.
    #[pyo3(signature = (summing_error=None, rounding=None))]
    fn on_grid(
        &self,
        summing_error: Option<Bound<'_, PyAny>>,
        rounding: Option<Bound<'_, PyAny>>,
    ) -> Result<Self> {
        let summing_error =
            summing_error.map(|value| arguments::number("summing_error", &value)).transpose()?;
        let rounding = rounding.map(|value| arguments::text("rounding", &value)).transpose()?;
        let spec = PlanSpec { grid: None, ..self.0.spec().clone() };
        let grid = Some(grid::choose(&spec, self::rounding(rounding.as_deref())?, summing_error)?);
        Ok(Self(plan::Plan::new(PlanSpec { grid, ..spec })?))
    }

    /// With fresh trees from these rounds on. σ stays, so what it promises is another.
    #[pyo3(signature = (restarts, completion=None), text_signature = "($self, restarts, completion=False)")]
    fn with_restarts(
        &self,
        restarts: &Bound<'_, PyAny>,
        completion: Option<Bound<'_, PyAny>>,
    ) -> Result<Self> {
        let restarts = arguments::wholes("restarts", restarts)?;
        let completion = match completion {
            Some(value) => arguments::flag("completion", &value)?,
            None => false,
        };
        let old = self.0.spec().clone();
        if !matches!(old.mechanism, Mechanism::Tree { .. }) {
            return Err(Refused::invalid("mechanism", old.mechanism.name(), "tree"));
        }
        let mechanism = Mechanism::Tree { restarts, completion };
        Ok(Self(plan::Plan::new(PlanSpec { mechanism, ..old })?))
    }

    /// ε, ρ and sens(C) of the whole run, for batches formed anyhow within the participation.
    fn privacy<'py>(&self, py: Python<'py>, delta: &Bound<'py, PyAny>) -> Result<Bound<'py, PyDict>> {
        let delta = arguments::number("delta", delta)?;
        let report = py.detach(|| {
            let sensitivity = self.0.accounted_sensitivity()?;
            let noise = self.0.accounted_noise_multiplier();
            Ok::<_, Refused>(Report::of_run(sensitivity, noise, self.0.failure_probability(), delta)?)
        })?;
        let answer = PyDict::new(py);
        answer.set_item("epsilon", report.epsilon)?;
        answer.set_item("delta", report.delta)?;
        answer.set_item("rho", report.rho)?;
        answer.set_item("sensitivity", report.sensitivity)?;
        answer.set_item("noise_multiplier", report.noise_multiplier)?;
        answer.set_item("exact", report.exact)?;
        Ok(answer)
    }

    /// Errors of released prefix sums in units of the clip norm: σ·‖A·C⁻¹‖, as rms, max and last row.
    fn errors<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyDict>> {
        let n = self.0.iterations();
        let workload = strategy::Workload::Prefix;
        let errors = py.detach(|| self.0.strategy().errors_on(n, &workload))?;
        let sigma = self.0.noise_multiplier();
        let answer = PyDict::new(py);
        answer.set_item("rms", sigma * errors.rms)?;
        answer.set_item("max", sigma * errors.max)?;
        answer.set_item("last", sigma * errors.last)?;
        Ok(answer)
    }

    #[getter]
    fn iterations(&self) -> u64 {
        self.0.iterations()
    }

    #[getter]
    fn noise_multiplier(&self) -> f64 {
        self.0.noise_multiplier()
    }

    #[getter]
    fn clip_norm(&self) -> f64 {
        self.0.clip_norm()
    }

    #[getter]
    fn mechanism(&self) -> &'static str {
        self.0.mechanism().name()
    }

    #[getter]
    fn restarts(&self) -> Vec<u64> {
        match self.0.mechanism() {
            Mechanism::Tree { restarts, .. } => restarts.clone(),
            _ => Vec::new(),
        }
    }

    #[getter]
    fn min_sep(&self) -> u64 {
        self.0.participation().min_sep
    }

    #[getter]
    fn max_participations(&self) -> u64 {
        self.0.participation().max_participations
    }

    #[getter]
    fn dimension(&self) -> Option<u64> {
        self.0.layout().map(Layout::dimension)
    }

    /// Names and shapes in the order of the flattened vector; empty where the plan has none.
    #[getter]
    fn parameters(&self) -> Vec<(String, Vec<u64>)> {
        let parameters = self.0.layout().map_or(&[][..], Layout::parameters);
        parameters.iter().map(|parameter| (parameter.name.clone(), parameter.shape.clone())).collect()
    }

    /// The grid and what accounts take from it, as `rustle plan show` has it; None for rows of floating-point numbers.
    #[getter]
    fn grid<'py>(&self, py: Python<'py>) -> Result<Option<Bound<'py, PyDict>>> {
        let Some(grid) = GridFacts::of(&self.0) else { return Ok(None) };
        let facts = PyDict::new(py);
        facts.set_item("step", grid.step)?;
        facts.set_item("rounding", grid.rounding)?;
        facts.set_item("summing_error", grid.summing_error)?;
        facts.set_item("clip_norm_accounted", grid.clip_norm_accounted)?;
        facts.set_item("noise_multiplier_accounted", grid.noise_multiplier_accounted)?;
        Ok(Some(facts))
    }

    #[getter]
    fn state_slots(&self) -> usize {
        self.0.state_slots()
    }

    #[getter]
    fn digest(&self) -> String {
        hex::encode(self.0.digest())
    }

    #[getter]
    fn layout_digest(&self) -> Option<String> {
        self.0.layout().map(|layout| hex::encode(layout.digest()))
    }

    fn __repr__(&self) -> String {
        let plan = &self.0;
        format!(
            "Plan({}, iterations={}, noise_multiplier={}, clip_norm={})",
            plan.mechanism().name(),
            plan.iterations(),
            plan.noise_multiplier(),
            plan.clip_norm()
        )
    }

    /// Returns a table for notebooks.
    fn _repr_html_(&self) -> String {
        let plan = &self.0;
        let rows = [
            ("mechanism", plan.mechanism().name().to_owned()),
            ("iterations", plan.iterations().to_string()),
            ("min_sep", self.min_sep().to_string()),
            ("max_participations", self.max_participations().to_string()),
            ("noise_multiplier", format!("{:.6}", plan.noise_multiplier())),
            ("clip_norm", plan.clip_norm().to_string()),
            ("dimension", self.dimension().map_or("that of the job".to_owned(), |count| count.to_string())),
        ];
        let row = |(name, value): (&str, String)| format!("<tr><th>{name}</th><td>{value}</td></tr>");
        format!("<table>{}</table>", rows.map(row).concat())
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| other.get().0.spec() == self.0.spec())
    }

    fn __hash__(&self) -> u64 {
        self.0.digest().first_chunk().map_or(0, |start| u64::from_le_bytes(*start))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> Result<(Bound<'py, PyAny>, (String,))> {
        let class = slf.get_type();
        Ok((class.getattr("from_toml")?, (slf.get().to_toml()?,)))
    }
}

/// SHA-256 of names and shapes, hexadecimal: what a plan's layout has.
#[pyfunction]
pub fn layout_digest(parameters: Vec<(String, Vec<u64>)>) -> Result<String> {
    Ok(hex::encode(Layout::from_parameters(named(parameters))?.digest()))
}

/// Returns the rounding of a name; `None` for the planner's choice.
pub fn rounding(name: Option<&str>) -> Result<Option<Rounding>> {
    let named = |name: &str| {
        let refused = || Refused::invalid("rounding", format!("{name:?}"), Rounding::NAMES.join(", "));
        Rounding::from_name(name).ok_or_else(refused)
    };
    name.map(named).transpose()
}

pub fn layout(dimension: Option<u64>, parameters: Option<Vec<(String, Vec<u64>)>>) -> Result<Option<Layout>> {
    match (dimension, parameters) {
        (None, None) => Ok(None),
        (Some(dimension), None) => Ok(Some(Layout::dimension_only(dimension)?)),
        (None, Some(parameters)) => Ok(Some(Layout::from_parameters(named(parameters))?)),
        (Some(_), Some(_)) => {
            Err(Refused::invalid("layout", "given twice", "either dimension or parameters"))
        }
    }
}

fn named(parameters: Vec<(String, Vec<u64>)>) -> Vec<Parameter> {
    parameters.into_iter().map(|(name, shape)| Parameter { name, shape }).collect()
}
