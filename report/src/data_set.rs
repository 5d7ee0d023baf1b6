//! The report on a data set: its budget, and all that it pays for.

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::amount::{Amount, down, up};
use crate::sections::{Block, Section};
use crate::share::{self, ShareLine};
use crate::{html, markdown};

/// What one job or sweep is charged for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChargeLine {
    /// The job or sweep.
    pub job: String,
    /// `reserved`, `spent`, `given-back` or, spent with rows that another copy of an adopted ledger may have released, `adopted`; `sweep` for a sweep, and `run` for a run of one.
    pub state: String,
    /// Rows bound on all branches.
    pub rows_bound: u64,
    /// The current branch: the number of rewinds so far.
    pub branch: u64,
    /// ε of the charge alone, at the budget's δ.
    pub epsilon: f64,
    /// The tenant whose share it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The event that is charged for.
    pub event: Value,
}

/// A data set's budget and all its charges: data that serialise as JSON, and a page to be signed. Neither has the runs of
/// sweeps, whose number is secret.
///
/// ```
/// use report::{Amount, DataSetReport};
///
/// let at = |epsilon| Amount { epsilon, delta: 1e-6 };
/// let report = DataSetReport {
///     data_set: "mails".into(),
///     unit: "user".into(),
///     neighbouring: "zero-out".into(),
///     budget: at(4.0),
///     spent: at(1.0),
///     reserved: at(0.5),
///     left: at(2.5),
///     adaptive: true,
///     entries: 1,
///     head: "ab".repeat(32),
///     shares: Vec::new(),
///     jobs: Vec::new(),
///     version: "0.1.0".into(),
/// };
/// assert!(report.markdown().starts_with("# Privacy budget of data set mails\n"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct DataSetReport {
    /// The data set.
    pub data_set: String,
    /// Whose data the budget protects.
    pub unit: String,
    /// The relation that the budget holds under.
    pub neighbouring: String,
    /// The most that all jobs together may cost.
    pub budget: Amount,
    /// The cost of all that nothing gives back, composed.
    pub spent: Amount,
    /// By how much ε grows with what is only reserved.
    pub reserved: Amount,
    /// What the budget holds beyond both.
    pub left: Amount,
    /// Whether parameters of later jobs may depend on what earlier ones released.
    pub adaptive: bool,
    /// Entries of the data set's chain of events. JSON has null where there is a sweep: they count its runs.
    pub entries: u64,
    /// The hash of the last one, hexadecimal.
    pub head: String,
    /// Every tenant that has a share or is charged.
    pub shares: Vec<ShareLine>,
    /// Every job and sweep that was ever charged. Runs of sweeps are never shown.
    pub jobs: Vec<ChargeLine>,
    /// The version of the program.
    pub version: String,
}

impl Serialize for DataSetReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("DataSetReport", 13)?;
        object.serialize_field("data_set", &self.data_set)?;
        object.serialize_field("unit", &self.unit)?;
        object.serialize_field("neighbouring", &self.neighbouring)?;
        object.serialize_field("budget", &self.budget)?;
        object.serialize_field("spent", &self.spent)?;
        object.serialize_field("reserved", &self.reserved)?;
        object.serialize_field("left", &self.left)?;
        object.serialize_field("adaptive", &self.adaptive)?;
        object.serialize_field("entries", &(!self.has_sweep()).then_some(self.entries))?;
        object.serialize_field("head", &self.head)?;
        object.serialize_field("shares", &self.shares)?;
        object.serialize_field("jobs", &self.shown())?;
        object.serialize_field("version", &self.version)?;
        object.end()
    }
}

impl DataSetReport {
    /// Returns the report as a Markdown page.
    #[must_use]
    pub fn markdown(&self) -> String {
        markdown::page(&self.title(), self.sections())
    }

    /// Returns the report as one self-contained HTML page.
    #[must_use]
    pub fn html(&self) -> String {
        html::page(&self.title(), self.sections())
    }

    fn title(&self) -> String {
        format!("Privacy budget of data set {}", self.data_set)
    }

    fn sections(&self) -> Vec<Section> {
        let mut sections = vec![Section { title: "Guarantee", blocks: self.guarantee() }];
        if !self.shares.is_empty() {
            sections.push(Section { title: "Tenants", blocks: share::blocks(&self.shares) });
        }
        sections.extend([
            Section { title: "Charges", blocks: self.charges() },
            Section { title: "What the figures hold for", blocks: self.assumptions() },
            Section { title: "Record", blocks: self.record() },
        ]);
        sections
    }

    fn guarantee(&self) -> Vec<Block> {
        let Self { unit, neighbouring, budget, .. } = self;
        let total = up(self.spent.epsilon + self.reserved.epsilon);
        let holds = format!(
            "All that was charged, up to the last row of every plan, is ({total}, {delta})-differentially private for one \
             {unit}, neighbouring data sets differing by {neighbouring}.",
            delta = budget.delta
        );
        let rows = [
            ("budget", budget.epsilon.to_string()),
            ("spent", up(self.spent.epsilon)),
            ("reserved", up(self.reserved.epsilon)),
            ("left", down(self.left.epsilon)),
        ];
        let rows = rows.map(|(what, epsilon)| vec![what.to_owned(), epsilon, budget.delta.to_string()]);
        vec![
            Block::Point { label: "Together", text: holds },
            Block::Table { head: vec!["", "ε", "δ"], rows: rows.to_vec() },
        ]
    }

    /// Runs of sweeps are left out: their number is secret, and their sweep is charged for them.
    fn shown(&self) -> Vec<&ChargeLine> {
        self.jobs.iter().filter(|line| line.state != "run").collect()
    }

    fn has_sweep(&self) -> bool {
        self.jobs.iter().any(|line| line.state == "sweep" || line.state == "run")
    }

    fn charges(&self) -> Vec<Block> {
        let shown = self.shown();
        if shown.is_empty() {
            return vec![Block::Point { label: "None", text: "No job was ever charged.".into() }];
        }
        let sum: f64 = shown.iter().map(|line| line.epsilon).sum();
        let row = |line: &&ChargeLine| {
            let count = |count: u64| if line.state == "sweep" { "–".to_owned() } else { count.to_string() };
            let cells = [line.job.clone(), line.state.clone(), count(line.rows_bound), count(line.branch)];
            let tenant = line.tenant.clone().unwrap_or_else(|| "–".to_owned());
            [cells.to_vec(), vec![up(line.epsilon), tenant]].concat()
        };
        let head = vec!["job or sweep", "state", "rows bound", "rewinds", "ε alone", "tenant"];
        let text = format!("The ε of these add up to {}, which is not what they cost together.", up(sum));
        vec![
            Block::Table { head, rows: shown.iter().map(row).collect() },
            Block::Point { label: "Sum", text },
        ]
    }

    fn assumptions(&self) -> Vec<Block> {
        let adaptive = if self.adaptive {
            "Parameters of later jobs may have been chosen by what earlier ones released."
        } else {
            "Parameters of later jobs must not have been chosen by what earlier ones released; their gradients may depend on it."
        };
        let mut blocks = vec![
            Block::Point { label: "Choices between jobs", text: adaptive.into() },
            Block::Point {
                label: "Not checked",
                text: "That batches are drawn as each job says, that each contribution is clipped, that the data is that of \
                       the data set, and that every use of the data is charged in this ledger."
                    .into(),
            },
        ];
        if self.has_sweep() {
            blocks.push(Block::Point {
                label: "Sweeps",
                text: "Each run draws its parameters by itself from one distribution that was fixed before; it is scored \
                       without the data set, or within its own event; nothing but the best run is published, not even \
                       the number of runs. Ledger, lists of jobs, chains of events, scores and the folder show that \
                       number, and are as secret. What is selected costs the ε of its sweep, which is more than that of \
                       a run. Where runs are on a grid, δ has room for the probability that any of them leaves its \
                       mechanism."
                    .into(),
            });
        }
        blocks
    }

    fn record(&self) -> Vec<Block> {
        let point = |label, text: String| Block::Point { label, text };
        vec![
            point("Head", format!("The chain of this data set's events ends with `{}`.", self.head)),
            point("Program", format!("rustle {}", self.version)),
            point("Signed", "Name, date and signature: ______________________________".into()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(job: &str, state: &str, epsilon: f64) -> ChargeLine {
        let event = Value::Null;
        ChargeLine {
            job: job.into(),
            state: state.into(),
            rows_bound: 7,
            branch: 1,
            epsilon,
            tenant: None,
            event,
        }
    }

    fn of(jobs: Vec<ChargeLine>) -> DataSetReport {
        let at = |epsilon| Amount { epsilon, delta: 1e-6 };
        DataSetReport {
            data_set: "mails".into(),
            unit: "user".into(),
            neighbouring: "zero-out".into(),
            budget: at(4.0),
            spent: at(1.000_001),
            reserved: at(0.5),
            left: at(2.499_999),
            adaptive: false,
            entries: 3,
            head: "ab".repeat(32),
            shares: Vec::new(),
            jobs,
            version: "0.1.0".into(),
        }
    }

    #[test]
    fn a_page_has_all_charges_and_never_the_number_of_runs() {
        let lines = ["s.1", "s.2", "s.3"].map(|run| line(run, "run", 0.0));
        let jobs = [vec![line("a", "spent", 1.2), line("s", "sweep", 0.9)], lines.to_vec()].concat();
        let report = of(jobs);
        for page in [report.markdown(), report.html()] {
            for part in ["mails", &"ab".repeat(32), "1.50001", "2.49999", "2.10000", "Sweeps", "Signed"] {
                assert!(page.contains(part), "{part} is missing in {page}");
            }
            assert!(!page.contains("s.1") && !page.contains("entries"), "{page}");
        }
        let json = serde_json::to_value(&report).unwrap();
        let jobs = &json["jobs"];
        assert!(jobs[0]["job"] == "a" && jobs[1]["job"] == "s" && jobs[2].is_null(), "{json}");
        assert!(json["entries"].is_null() && json["head"] == report.head);
        let without = serde_json::to_value(of(vec![line("a", "spent", 1.2)])).unwrap();
        assert_eq!(without["entries"], 3);
        assert!(!of(Vec::new()).markdown().contains("Sweeps"));
    }

    #[test]
    fn a_page_has_tenants_where_there_are_some() {
        let at = |epsilon| Amount { epsilon, delta: 1e-7 };
        let share = Some(at(1.0));
        let left = Some(at(0.499_999));
        let ads = ShareLine { tenant: "ads".into(), share, spent: at(0.300_001), reserved: at(0.2), left };
        let jobs = vec![ChargeLine { tenant: Some("ads".into()), ..line("a", "spent", 0.3) }];
        let report = DataSetReport { shares: vec![ads], ..of(jobs) };
        assert!(report.markdown().contains("Tenants") && report.html().contains("0.30001"));
        let json = serde_json::to_value(&report).unwrap();
        assert!(json["shares"][0]["left"]["delta"] == 1e-7 && json["jobs"][0]["tenant"] == "ads", "{json}");
        assert!(!of(Vec::new()).markdown().contains("Tenants"));
    }
}
