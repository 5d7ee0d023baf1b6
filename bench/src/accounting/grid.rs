//! What is accounted for: each setting as an event of ours and as a request to the peer.

use accounting::{Event, MatrixMechanism, Partition, user_level};
use serde_json::{Value, json};

/// The peer's grid of losses.
pub const GRID: f64 = 1e-4;

/// The least speed beside the peer where losses are composed.
const RATIO: f64 = 50.0;

/// One tree without restarts, σ = 7, δ = 1e-10: Xu et al. (2023), Tables 1 and 2. (name, rounds, MinS, MaxP), where MinS
/// counts the rounds in between.
const TREES: [(&str, u64, u64, u64); 20] = [
    ("nwp-de-DE", 930, 212, 4),
    ("nwp-en-GB", 980, 226, 4),
    ("nwp-fr-FR", 1280, 180, 5),
    ("nwp-it-IT", 1620, 303, 5),
    ("nwp-pt-PT", 530, 54, 8),
    ("nwp-es-ES", 1900, 526, 3),
    ("nwp-es-ES-secure", 1750, 349, 4),
    ("nwp-en-US", 2800, 371, 7),
    ("nwp-en-US-secure", 1360, 622, 2),
    ("nwp-pt-BR", 3600, 909, 3),
    ("nwp-en-IN", 1290, 170, 6),
    ("nwp-es-MX", 1980, 343, 5),
    ("nwp-es-AR", 640, 90, 5),
    ("otf-de-DE", 1170, 206, 5),
    ("otf-en-GB", 1220, 206, 5),
    ("otf-es-ES", 1280, 197, 5),
    ("otf-fr-FR", 1300, 290, 4),
    ("otf-it-IT", 1360, 188, 5),
    ("otf-ru-RU", 870, 327, 3),
    ("otf-pt-PT", 430, 54, 7),
];

#[derive(Clone, Debug)]
pub enum Mechanism {
    Gaussian,
    Poisson {
        q: f64,
        rounds: u64,
    },
    /// Users of at most `group` records.
    Mixture {
        q: f64,
        group: u64,
        rounds: u64,
    },
    BandMf {
        q: f64,
        bands: u64,
        iterations: u64,
    },
    Tree {
        iterations: u64,
        between: u64,
        participations: u64,
    },
}

#[derive(Clone, Debug)]
pub struct Setting {
    pub name: String,
    pub mechanism: Mechanism,
    pub sigma: f64,
    pub delta: f64,
    /// Most seconds of ours, and least speed beside the peer.
    pub seconds: Option<f64>,
    pub ratio: Option<f64>,
}

impl Setting {
    fn sampled(name: &str, sigma: f64, mechanism: Mechanism, delta: f64, seconds: Option<f64>) -> Self {
        Self { name: name.into(), mechanism, sigma, delta, seconds, ratio: Some(RATIO) }
    }

    /// What a figure is: ρ where the peer has no ε.
    pub fn figure(&self) -> &'static str {
        if self.is_tree() { "ρ" } else { "ε" }
    }

    pub fn is_tree(&self) -> bool {
        matches!(self.mechanism, Mechanism::Tree { .. })
    }

    pub fn event(&self) -> anyhow::Result<Event> {
        let noise_multiplier = self.sigma;
        Ok(match self.mechanism {
            Mechanism::Gaussian => Event::Gaussian { noise_multiplier },
            Mechanism::Poisson { q, rounds } => {
                Event::PoissonSampledGaussian { noise_multiplier, sampling_probability: q }.times(rounds)
            }
            Mechanism::Mixture { q, group, rounds } => mixture(noise_multiplier, q, group)?.times(rounds),
            Mechanism::BandMf { q, bands, iterations } => {
                Event::MatrixMechanism(MatrixMechanism::cyclic_poisson(
                    noise_multiplier,
                    q,
                    bands,
                    iterations,
                    Partition::Independent,
                ))
            }
            Mechanism::Tree { iterations, between, participations } => Event::Tree {
                noise_multiplier,
                iterations,
                min_sep: between + 1,
                max_participations: participations,
                restarts: Vec::new(),
                completion: false,
            },
        })
    }

    /// As `bench/peers/accounting.py` takes it; `trees`: TensorFlow Privacy's file of tree accounts.
    pub fn request(&self, trees: &str) -> anyhow::Result<Value> {
        let mut asked = match self.mechanism {
            Mechanism::Gaussian => json!({ "kind": "gaussian" }),
            Mechanism::Poisson { q, rounds } => json!({ "kind": "poisson", "q": q, "rounds": rounds }),
            Mechanism::BandMf { q, bands, iterations } => {
                let q = q * bands as f64;
                let rounds = iterations.div_ceil(bands);
                json!({ "kind": "poisson", "q": q, "rounds": rounds })
            }
            Mechanism::Mixture { q, group, rounds } => {
                let Event::MixtureOfGaussians { sensitivities, probabilities, .. } =
                    mixture(self.sigma, q, group)?
                else {
                    anyhow::bail!("groups of {group} are no mixture");
                };
                json!({ "kind": "mixture", "sensitivities": sensitivities, "probabilities": probabilities,
                        "rounds": rounds })
            }
            Mechanism::Tree { iterations, between, participations } => {
                json!({ "kind": "tree", "iterations": iterations, "between": between,
                        "participations": participations, "module": trees })
            }
        };
        asked["sigma"] = self.sigma.into();
        asked["delta"] = self.delta.into();
        asked["grid"] = GRID.into();
        Ok(asked)
    }
}

/// One record a user is a mixture of two as well, so that both sides do the same.
fn mixture(noise_multiplier: f64, q: f64, group: u64) -> anyhow::Result<Event> {
    if group == 1 {
        let sensitivities = vec![0.0, 1.0];
        let probabilities = vec![1.0 - q, q];
        return Ok(Event::MixtureOfGaussians { noise_multiplier, sensitivities, probabilities });
    }
    Ok(user_level::round(noise_multiplier, q, group)?)
}

pub fn all() -> Vec<Setting> {
    let poisson = |q, rounds| Mechanism::Poisson { q, rounds };
    let group = |group| Mechanism::Mixture { q: 0.01, group, rounds: 2000 };
    let bands = Mechanism::BandMf { q: 0.005, bands: 8, iterations: 2000 };
    let mut settings = vec![
        Setting::sampled("poisson-2000", 1.0, poisson(0.01, 2000), 1e-6, Some(0.05)),
        Setting::sampled("poisson-10000", 0.6, poisson(0.001, 10_000), 1e-7, None),
        Setting::sampled("poisson-64", 2.0, poisson(0.2, 64), 1e-6, None),
        Setting::sampled("mixture-1", 1.0, group(1), 1e-6, None),
        Setting::sampled("mixture-4", 1.0, group(4), 1e-6, None),
        Setting::sampled("mixture-16", 1.0, group(16), 1e-6, Some(0.5)),
        Setting::sampled("band-mf-8", 1.0, bands, 1e-6, None),
    ];
    let gaussians = [("gaussian-1e-6", 2.0, 1e-6), ("gaussian-1e-10", 0.5, 1e-10)];
    settings.extend(gaussians.map(|(name, sigma, delta)| Setting {
        ratio: None,
        ..Setting::sampled(name, sigma, Mechanism::Gaussian, delta, None)
    }));
    // One that the peer can do.
    let small = ("small", 64, 20, 2);
    settings.extend(std::iter::once(small).chain(TREES).map(
        |(name, iterations, between, participations)| {
            let mechanism = Mechanism::Tree { iterations, between, participations };
            Setting {
                ratio: None,
                ..Setting::sampled(&format!("tree-{name}"), 7.0, mechanism, 1e-10, Some(0.1))
            }
        },
    ));
    settings
}

#[cfg(test)]
mod tests {
    use accounting::{Account, Neighbouring};

    use super::*;

    #[test]
    fn every_setting_is_an_event_and_a_request() {
        let mut names: Vec<String> = all().into_iter().map(|setting| setting.name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all().len());
        for setting in all() {
            let account = Account::new(&setting.event().unwrap(), Neighbouring::ZeroOut).unwrap();
            assert_eq!(account.rho().is_none(), setting.ratio.is_some(), "{}", setting.name);
            assert!(setting.request("trees.py").unwrap()["sigma"].as_f64() == Some(setting.sigma));
        }
    }
}
