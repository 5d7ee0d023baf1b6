//! What the library on the other side is asked: to optimise, and to evaluate, as `bench/peers/strategy.py` says.

use anyhow::Context;
use serde::Deserialize;
use serde_json::{Value, json};
use strategy::Strategy;

use super::parameters;
use super::rustle::{LIMIT, Losses};
use super::setting::Setting;
use crate::peers::python::Python;

/// What one call took, in seconds.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Call {
    pub seconds: f64,
    /// Of them, those in which JAX says that it traced, lowered or compiled.
    pub compiling: f64,
}

/// What came of asking the library to optimise.
pub enum Answer {
    Optimized(Call, Strategy),
    /// It has no such optimiser.
    Absent(String),
}

/// Asks the library to optimise.
pub fn optimise(peer: &mut Python, setting: &Setting) -> anyhow::Result<Answer> {
    let mut case = described(setting);
    case["size"] = setting.kind.size().into();
    case["loss"] = setting.loss.name().into();
    let answer = peer.ask(&json!({ "optimise": case }), LIMIT)?;
    if let Some(why) = answer["absent"].as_str() {
        return Ok(Answer::Absent(why.to_owned()));
    }
    let strategy = parameters::read(setting.kind, &answer["parameters"])?;
    Ok(Answer::Optimized(Call::deserialize(answer)?, strategy))
}

/// Asks for the last setting once more.
pub fn again(peer: &mut Python) -> anyhow::Result<Call> {
    Ok(Call::deserialize(peer.ask(&json!({ "again": {} }), LIMIT)?)?)
}

/// Asks for the losses by plain sums in NumPy.
pub fn evaluate(peer: &mut Python, setting: &Setting, strategy: &Strategy) -> anyhow::Result<Losses> {
    let mut case = described(setting);
    case["parameters"] = parameters::write(strategy)?;
    let answer = peer.ask(&json!({ "evaluate": case }), LIMIT)?;
    let number = |name: &str| answer[name].as_f64().with_context(|| format!("the peer answered {answer}"));
    Ok(Losses { rms: number("rms")?, max: number("max")?, sensitivity: number("sensitivity")? })
}

fn described(setting: &Setting) -> Value {
    json!({ "family": setting.kind.family(), "n": setting.n, "b": setting.b, "k": setting.k })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting() -> Setting {
        "band-toeplitz-2,n=8".parse().unwrap()
    }

    #[test]
    fn what_it_found_what_it_lacks_and_what_went_wrong_come_back() {
        let script = r#"
            read a; echo '{"seconds": 2.5, "compiling": 2.0, "parameters": {"c": [1.0, 0.5]}}'
            read a; echo '{"absent": "it has none"}'
            read a; echo '{"error": "ValueError: no memory"}'; read a"#;
        let (_folder, mut peer) = crate::peers::python::tests::peer(script);
        let Answer::Optimized(call, strategy) = optimise(&mut peer, &setting()).unwrap() else {
            panic!("absent")
        };
        assert_eq!((call.seconds, call.compiling), (2.5, 2.0));
        assert_eq!(strategy, Strategy::BandToeplitz { c: vec![1.0, 0.5], column_normalised: false });
        assert!(
            matches!(optimise(&mut peer, &setting()).unwrap(), Answer::Absent(why) if why == "it has none")
        );
        assert!(again(&mut peer).unwrap_err().to_string().contains("no memory"));
    }
}
