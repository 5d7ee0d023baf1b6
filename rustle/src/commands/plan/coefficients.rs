//! `rustle plan coefficients`: prints coefficients of C or C⁻¹.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{ArgGroup, Args, ValueEnum};

use crate::commands::plan_file;
use crate::output::{Answer, Format, bad_use};

#[derive(Clone, Debug, Args)]
#[command(group = ArgGroup::new("which").required(true).args(["count", "row"]))]
pub struct CoefficientsArgs {
    /// File of the plan
    #[arg(long, value_name = "FILE")]
    plan: PathBuf,
    /// Matrix to print
    #[arg(long, value_enum)]
    matrix: Matrix,
    /// Number of coefficients of the first column, from 1 to n, for a Toeplitz matrix
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Row to print up to its diagonal, counted from 0
    #[arg(long, value_name = "T")]
    row: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Matrix {
    C,
    CInverse,
}

pub fn run(args: &CoefficientsArgs, format: Format) -> anyhow::Result<ExitCode> {
    let plan = plan_file::read(&args.plan)?;
    let strategy = plan.strategy();
    let n = plan.iterations();
    if let Some(count) = args.count.filter(|&count| !(1..=n).contains(&count)) {
        return Err(bad_use(format!("--count is {count}; allowed: 1 to {n} (iterations)")));
    }
    if let Some(row) = args.row.filter(|&row| row >= n) {
        return Err(bad_use(format!("--row is {row}; allowed: 0 to {} (iterations − 1)", n - 1)));
    }
    let answer = Answer::new().with("mechanism", strategy.name());
    let (answer, numbers) = match (args.matrix, args.count, args.row) {
        (Matrix::C, Some(count), _) => (answer.with("matrix", "c"), strategy.c_column(count)),
        (Matrix::CInverse, Some(count), _) => {
            (answer.with("matrix", "c-inverse"), strategy.c_inverse_column(count))
        }
        (Matrix::C, None, Some(row)) => (answer.with("matrix", "c").with("row", row), strategy.c_row(n, row)),
        (Matrix::CInverse, None, Some(row)) => {
            (answer.with("matrix", "c-inverse").with("row", row), strategy.c_inverse_row(n, row))
        }
        (_, None, None) => return Err(bad_use("--count and --row are missing; allowed: one of them")),
    };
    answer.with("coefficients", numbers.map_err(bad_use)?).print(format)?;
    Ok(ExitCode::SUCCESS)
}
