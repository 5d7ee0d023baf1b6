//! Strategies as the peer's script writes and reads them.

use anyhow::Context;
use ndarray::Array2;
use serde::Deserialize;
use serde_json::{Value, json};
use strategy::{Banded, Blt, Dense, Strategy};

use super::setting::Kind;

/// Error: a strategy of a kind that no setting here optimises.
pub fn write(strategy: &Strategy) -> anyhow::Result<Value> {
    Ok(match strategy {
        Strategy::Blt(blt) => json!({ "theta": blt.theta(), "omega": blt.omega() }),
        Strategy::BandToeplitz { c, column_normalised: false } => json!({ "c": c }),
        Strategy::BandInverse { s } => json!({ "s": s }),
        Strategy::BandMf(banded) => json!({ "columns": rows(banded.columns()) }),
        Strategy::Dense(dense) => json!({ "matrix": rows(dense.matrix()) }),
        other => anyhow::bail!("{} has no parameters to compare", other.name()),
    })
}

/// Error: numbers that make no such strategy.
pub fn read(kind: Kind, parameters: &Value) -> anyhow::Result<Strategy> {
    Ok(match kind {
        Kind::Blt(_) => Strategy::Blt(Blt::new(field(parameters, "theta")?, field(parameters, "omega")?)?),
        Kind::BandToeplitz(_) => {
            Strategy::BandToeplitz { c: field(parameters, "c")?, column_normalised: false }
        }
        Kind::BandInverse(_) => Strategy::BandInverse { s: field(parameters, "s")? },
        Kind::BandMf(_) | Kind::DenseBands(_) => {
            Strategy::BandMf(Banded::new(array(field(parameters, "columns")?)?)?)
        }
        Kind::Dense => Strategy::Dense(Dense::new(array(field(parameters, "matrix")?)?)?),
    })
}

fn field<T: for<'de> Deserialize<'de>>(parameters: &Value, name: &str) -> anyhow::Result<T> {
    let value = parameters.get(name).with_context(|| format!("no {name} in the peer's parameters"))?;
    T::deserialize(value).with_context(|| format!("{name} of the peer's parameters"))
}

fn rows(array: &Array2<f64>) -> Vec<Vec<f64>> {
    array.rows().into_iter().map(|row| row.to_vec()).collect()
}

fn array(rows: Vec<Vec<f64>>) -> anyhow::Result<Array2<f64>> {
    let shape = (rows.len(), rows.first().map_or(0, Vec::len));
    Array2::from_shape_vec(shape, rows.concat()).context("rows of one length")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let columns = Array2::from_shape_vec((3, 2), vec![1.0, 0.25, 0.75, 0.1, 0.5, 0.0]).unwrap();
        let matrix = Array2::from_shape_vec((2, 2), vec![1.0, 0.0, 0.3, 0.9]).unwrap();
        for (kind, strategy) in [
            (Kind::Blt(1), Strategy::Blt(Blt::new(vec![0.9], vec![0.5]).unwrap())),
            (Kind::BandToeplitz(2), Strategy::BandToeplitz { c: vec![1.0, 0.1], column_normalised: false }),
            (Kind::BandInverse(2), Strategy::BandInverse { s: vec![1.0, -0.1] }),
            (Kind::DenseBands(2), Strategy::BandMf(Banded::new(columns).unwrap())),
            (Kind::Dense, Strategy::Dense(Dense::new(matrix).unwrap())),
        ] {
            assert_eq!(read(kind, &write(&strategy).unwrap()).unwrap(), strategy);
        }
    }

    #[test]
    fn numbers_that_make_no_strategy_are_refused() {
        let error = read(Kind::Blt(1), &json!({ "theta": [1.5], "omega": [0.5] })).unwrap_err();
        assert!(error.to_string().contains("1.5"), "{error}");
        assert!(read(Kind::Dense, &json!({ "matrix": [[1.0, 0.0], [0.5]] })).is_err());
        assert!(read(Kind::BandToeplitz(1), &json!({})).unwrap_err().to_string().contains("no c"));
        assert!(write(&Strategy::Identity).is_err());
    }
}
