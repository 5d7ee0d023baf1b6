//! Past the published optimum: column norms that differ from one epoch to the next, in the settings of McMahan, Xu, Zhang
//! (2024) with several participations.

use strategy::Participation;
use strategy::optimize::Family;

use crate::item::{Cell, Findings, Table};
use crate::work::{Loss, Work};

/// Rounds and a rule of participation that a figure or table there has.
struct Setting {
    published_in: &'static str,
    n: u64,
    rule: Participation,
}

const fn setting(published_in: &'static str, n: u64, min_sep: u64, max_participations: u64) -> Setting {
    Setting { published_in, n, rule: Participation { min_sep, max_participations } }
}

const SETTINGS: [Setting; 5] = [
    setting("Table 3", 2052, 342, 6),
    setting("Figure 3", 2000, 400, 3),
    setting("Figures 4, 6", 2000, 400, 5),
    setting("Figure 4", 2000, 200, 10),
    setting("Figure 4", 2000, 100, 20),
];
const BUFFERS: usize = 3;
/// The most general bands that are optimised: 342 for 2052 rounds take more than eight minutes.
const MOST_GENERAL: usize = 100;

/// One mechanism's loss as the paper optimises it, and with norms by epoch.
struct Row {
    setting: &'static Setting,
    mechanism: String,
    loss: Loss,
    equal: f64,
    by_epoch: f64,
}

impl Row {
    /// By how much norms by epoch lower the loss, as a share of it.
    fn gain(&self) -> f64 {
        1.0 - self.by_epoch / self.equal
    }

    fn cells(&self) -> Vec<Cell> {
        let Setting { published_in, n, rule } = self.setting;
        let setting = format!("{published_in}: {n}, {}, {}", rule.min_sep, rule.max_participations);
        let loss = Cell::from(self.loss.objective().name());
        let losses = [self.equal, self.by_epoch].map(|loss| Cell::number(loss, 4));
        let gain = Cell::from(format!("{:.2} %", self.gain() * 100.0));
        [setting.into(), self.mechanism.as_str().into(), loss]
            .into_iter()
            .chain(losses)
            .chain([gain])
            .collect()
    }
}

/// Every mechanism at RmsLoss, then the losses that gain little or nothing.
pub fn norms_by_epoch(work: &Work) -> anyhow::Result<Findings> {
    let mut rms = Vec::new();
    for setting in &SETTINGS {
        for family in families(setting) {
            rms.push(row(work, setting, family, Loss::Rms)?);
        }
    }
    let mut others = Vec::new();
    let few = &SETTINGS[SETTINGS.len() - 1];
    for loss in [Loss::Max, Loss::Last] {
        others.push(row(work, few, band_mf(few), loss)?);
    }
    let header = ["setting: n, b, k", "mechanism", "loss", "as in the paper", "ours, by epoch", "lower by"];
    let table = |title, rows: &[Row]| Table::new(title, header, rows.iter().map(Row::cells));
    Ok(Findings {
        tables: vec![table("Where it helps: RmsLoss", &rms), table("Where it does not", &others)],
        remarks: vec![summary(&rms)],
        ..Findings::default()
    })
}

fn summary(rows: &[Row]) -> String {
    let mut gains: Vec<f64> = rows.iter().map(|row| row.gain() * 100.0).collect();
    gains.sort_by(f64::total_cmp);
    let [least, median, most] = [0, rows.len() / 2, rows.len() - 1].map(|rank| gains[rank]);
    let count = rows.len();
    format!(
        "RmsLoss is lower by {least:.2} to {most:.2} % in these {count} rows, at the median by {median:.2} %."
    )
}

/// Each with the family that it becomes by epoch.
fn families(setting: &Setting) -> Vec<(Family, Family)> {
    let bands = setting.rule.min_sep as usize;
    let mut families = vec![
        (Family::BandToeplitz { bands }, Family::BandToeplitzByEpoch { bands }),
        (Family::Blt { buffers: BUFFERS }, Family::BltByEpoch { buffers: BUFFERS }),
    ];
    if bands <= MOST_GENERAL {
        families.push(band_mf(setting));
    }
    families
}

fn band_mf(setting: &Setting) -> (Family, Family) {
    let bands = setting.rule.min_sep as usize;
    (Family::BandMf { bands }, Family::BandMfByEpoch { bands })
}

fn row(
    work: &Work,
    setting: &'static Setting,
    (equal, by_epoch): (Family, Family),
    loss: Loss,
) -> anyhow::Result<Row> {
    let size = equal.size().unwrap_or_default();
    let mechanism = format!("{}-{size}", equal.name());
    work.report(&format!("{mechanism}, {}", setting.published_in));
    let found = |family| work.optimised(family, setting.n, setting.rule, loss).map(|found| found.loss);
    Ok(Row { setting, mechanism, loss, equal: found(equal)?, by_epoch: found(by_epoch)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    static SMALL: Setting = setting("a test", 64, 8, 8);

    /// The first row of the table of norms in docs/planner.md.
    #[test]
    fn norms_by_epoch_lower_the_rms_loss_and_hardly_the_others() {
        let work = Work::new(0);
        let rms = row(&work, &SMALL, band_mf(&SMALL), Loss::Rms).unwrap();
        assert!((rms.equal - 7.4119).abs() < 1e-4 && (rms.by_epoch - 7.1793).abs() < 1e-4);
        let max = row(&work, &SMALL, band_mf(&SMALL), Loss::Max).unwrap();
        assert!((0.0..0.01).contains(&max.gain()), "{}", max.gain());
        let last = row(&work, &SMALL, band_mf(&SMALL), Loss::Last).unwrap();
        assert!(last.gain().abs() < 1e-6, "{}", last.gain());
        for family in families(&SMALL) {
            let gain = row(&work, &SMALL, family, Loss::Rms).unwrap().gain();
            assert!(gain > 0.01, "{family:?}: {gain}");
        }
    }
}
