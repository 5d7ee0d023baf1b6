//! A figure with limits of its own, measured without a peer.

use serde::Serialize;
use serde_json::{Value, json};

use super::grid::Named;
use super::row::{SLACK, Timed, described};
use super::rustle::Ours;

pub struct Figure {
    pub named: Named,
    /// Or why there is none.
    ours: Result<Timed, String>,
}

impl Figure {
    pub fn measure(named: Named) -> Self {
        let ours = Ours::alone(&named.setting).and_then(|ours| Timed::of(&ours));
        Self { ours: ours.map_err(|error| format!("{error:#}")), named }
    }

    pub fn loss(&self) -> Option<f64> {
        Some(self.ours.as_ref().ok()?.losses.named(self.named.setting.loss))
    }

    /// The median.
    pub fn seconds(&self) -> Option<f64> {
        Some(self.ours.as_ref().ok()?.seconds.median)
    }

    /// The limits that were missed, in words.
    pub fn missed(&self) -> Vec<String> {
        let setting = &self.named.setting;
        let ours = match &self.ours {
            Ok(ours) => ours,
            Err(why) => return vec![format!("{setting}: {why}")],
        };
        let loss = ours.losses.named(setting.loss);
        let median = ours.seconds.median;
        let mut missed = Vec::new();
        if let Some(most) = self.named.loss
            && loss > most * (1.0 + SLACK)
        {
            missed.push(format!("{setting}: loss {loss:.6}, limit {most}"));
        }
        if let Some(most) = self.named.seconds
            && median > most
        {
            missed.push(format!("{setting}: {median:.3} s, limit {most} s"));
        }
        if ours.stopped {
            missed.push(format!("{setting}: stopped after {median:.0} s"));
        }
        missed
    }
}

impl Serialize for Figure {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = described(&self.named.setting);
        fields.insert("ours".into(), json!(self.ours.as_ref().ok()));
        fields.insert("limit_loss".into(), json!(self.named.loss));
        fields.insert("limit_seconds".into(), json!(self.named.seconds));
        fields.insert("missed".into(), json!(self.missed()));
        Value::Object(fields).serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_of_loss_and_of_time() {
        let setting = "band-toeplitz-2,n=20".parse().unwrap();
        let figure = |loss, seconds| Figure::measure(Named { setting, loss, seconds });
        let free = figure(None, None);
        let least = free.loss().unwrap();
        assert!(free.missed().is_empty());
        assert!(figure(Some(least * (1.0 + 1e-9)), Some(60.0)).missed().is_empty());
        let missed = figure(Some(least * 0.999), Some(1e-12)).missed();
        assert!(missed.len() == 2 && missed[0].contains("limit"), "{missed:?}");
    }

    #[test]
    fn what_can_not_be_optimised_is_missed_and_named() {
        let setting = "band-mf-8,n=20,b=4,k=3,rms".parse().unwrap();
        let figure = Figure::measure(Named { setting, loss: None, seconds: None });
        assert!(figure.loss().is_none() && figure.missed()[0].starts_with("band-mf-8,n=20,b=4,k=3,rms: "));
    }
}
