//! The report on a data set: its budget, and all that it pays for.

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::amount::{Amount, down, up};
use crate::approval::{self, ApprovalLine};
use crate::block::{self, BlockLine};
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
    /// The blocks that it is charged in; none for all of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blocks: Vec<String>,
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
///     per_block: false,
///     blocks: Vec::new(),
///     all_blocks: None,
///     jobs: Vec::new(),
///     free_rewinds: None,
///     approvals: Vec::new(),
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
    /// Whether the figures above are of the fullest block, in place of all blocks together.
    pub per_block: bool,
    /// Every block.
    pub blocks: Vec<BlockLine>,
    /// Where they are per block, the cost of all charges together, which no budget bounds.
    pub all_blocks: Option<Amount>,
    /// Every job and sweep that was ever charged. Runs of sweeps are never shown.
    pub jobs: Vec<ChargeLine>,
    /// The branches of each job that one person opens; `None` where one person makes every change.
    pub free_rewinds: Option<u32>,
    /// Every change that one person approved and another one made.
    pub approvals: Vec<ApprovalLine>,
    /// The version of the program.
    pub version: String,
}

impl Serialize for DataSetReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("DataSetReport", 18)?;
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
        object.serialize_field("per_block", &self.per_block)?;
        object.serialize_field("blocks", &self.blocks)?;
        object.serialize_field("all_blocks", &self.all_blocks)?;
        object.serialize_field("jobs", &self.shown())?;
        object.serialize_field("free_rewinds", &self.free_rewinds)?;
        object.serialize_field("approvals", &self.approvals)?;
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
        if !self.blocks.is_empty() {
            let blocks = block::blocks(&self.blocks, &self.unit);
            sections.push(Section { title: "Blocks", blocks });
        }
        if !self.shares.is_empty() {
            sections.push(Section { title: "Tenants", blocks: share::blocks(&self.shares) });
        }
        if let Some(free_rewinds) = self.free_rewinds {
            let blocks = approval::blocks(free_rewinds, &self.approvals);
            sections.push(Section { title: "Approvals", blocks });
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
        let whose = if self.per_block { "the part in any one block of the data of one " } else { "one " };
        let holds = format!(
            "All that was charged, up to the last row of every plan, is ({total}, {delta})-differentially private for \
             {whose}{unit}, neighbouring data sets differing by {neighbouring}.",
            delta = budget.delta
        );
        let rows = [
            ("budget", budget.epsilon.to_string()),
            ("spent", up(self.spent.epsilon)),
            ("reserved", up(self.reserved.epsilon)),
            ("left", down(self.left.epsilon)),
        ];
        let rows = rows.map(|(what, epsilon)| vec![what.to_owned(), epsilon, budget.delta.to_string()]);
        let table = Block::Table { head: vec!["", "ε", "δ"], rows: rows.to_vec() };
        let mut blocks = vec![Block::Point { label: "Together", text: holds }, table];
        if let Some(Amount { epsilon, delta }) = self.all_blocks {
            let text = format!(
                "For all data of one {unit}, in whichever blocks it lies, it is ({}, {delta})-differentially private. No budget bounds \
                 that: it grows with every job.",
                up(epsilon)
            );
            blocks.push(Block::Point { label: "All blocks", text });
        }
        blocks
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
        let has_blocks = !self.blocks.is_empty();
        let sum: f64 = shown.iter().map(|line| line.epsilon).sum();
        let row = |line: &&ChargeLine| {
            let count = |count: u64| if line.state == "sweep" { "–".to_owned() } else { count.to_string() };
            let cells = [line.job.clone(), line.state.clone(), count(line.rows_bound), count(line.branch)];
            let tenant = line.tenant.clone().unwrap_or_else(|| "–".to_owned());
            let mut cells = [cells.to_vec(), vec![up(line.epsilon), tenant]].concat();
            if has_blocks {
                cells.push(if line.blocks.is_empty() { "all".to_owned() } else { line.blocks.join(", ") });
            }
            cells
        };
        let mut head = vec!["job or sweep", "state", "rows bound", "rewinds", "ε alone", "tenant"];
        if has_blocks {
            head.push("blocks");
        }
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
        if self.per_block || !self.blocks.is_empty() {
            blocks.push(block::assumption(&self.unit));
        }
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
mod tests;
