//! `rustle fetch`: binds rows of a running cluster and writes them to an .npy file.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use client::{Client, Fetch, FetchRequest};
use node::config::kept_commitment::KeptCommitment;
use node::telemetry::{Format as LogFormat, TelemetryConfig};
use proto::{Commitment, CoordinateRange, ElementType, JobId, RowRange, ServiceError};
use tokio::time::Instant;

use super::online;
use crate::access::CoordinatorArg;
use crate::npy::{NpyWriter, Number};
use crate::out_file;
use crate::output::{Answer, Format, bad_use, never_quiet};
use crate::progress::Progress;
use crate::streams;
use crate::values::{self, Span};

/// Bytes of rows in one request, unless one row alone is longer.
const BATCH_BYTES: u64 = 64 << 20;

/// Bind rows to a commitment and fetch them into an .npy file
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  \
    rustle fetch --job trial --steps 0..8 --range 0..1000 --commitment 'run 7' --out rows.npy")]
pub struct FetchArgs {
    #[command(flatten)]
    coordinator: CoordinatorArg,
    /// Name of the job
    #[arg(long, default_value = "default")]
    job: JobId,
    /// Number of the job's current branch, as `rustle job show` prints it
    #[arg(long, value_name = "B", default_value_t = 0)]
    branch: u64,
    /// Text that the rows are bound to, which names what their noise is added to; another text for the same rows is refused
    /// [default: one drawn for this file, kept in FILE.commitment until the file is whole]
    #[arg(long, value_name = "TEXT")]
    commitment: Option<String>,
    /// Rows a..b, counted from 0
    #[arg(long, value_name = "A..B")]
    steps: Span,
    /// Coordinates a..b of the flattened parameter vector, counted from 0
    #[arg(long, value_name = "A..B")]
    range: Span,
    /// Time to wait for a range that no worker serves, per request
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = values::duration)]
    deadline: Duration,
    /// URL of an OpenTelemetry collector for traces, OTLP over gRPC [default: none]
    #[arg(long, value_name = "URL", env = "OTEL_EXPORTER_OTLP_ENDPOINT", hide_short_help = true)]
    otlp: Option<String>,
    /// The .npy file to write, of shape (rows, coordinates): float32, or int32 where the plan is on a grid; - for standard output
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

pub fn run(args: &FetchArgs, format: Format) -> anyhow::Result<ExitCode> {
    let _telemetry = match &args.otlp {
        Some(url) => Some(
            node::telemetry::init(TelemetryConfig {
                format: LogFormat::Text,
                filter: "warn".into(),
                otlp: Some(url.clone()),
                service: "rustle-fetch",
            })
            .map_err(bad_use)?,
        ),
        None => None,
    };
    if args.commitment.as_ref().is_some_and(String::is_empty) {
        return Err(bad_use("--commitment is empty; allowed: a text that names what the noise is added to"));
    }
    if args.commitment.is_none() && out_file::is_stream(&args.out) {
        let allowed = "allowed: with --commitment, because nothing beside a stream keeps one that is drawn";
        let out = args.out.display();
        return Err(bad_use(format!("--out is {out} and --commitment is missing; {allowed}")));
    }
    let fetched = online::block_on(&args.coordinator, fetch(args, format));
    fetched.map_err(|error| {
        never_quiet(error, "rows that were bound count as released; the same --commitment fetches them again")
    })
}

async fn fetch(args: &FetchArgs, format: Format) -> anyhow::Result<ExitCode> {
    let client = args.coordinator.client().await?;
    let range = CoordinateRange::new(args.range.0.start, args.range.0.end)?;
    // A range beyond the job's dimension is refused before a file is created.
    let routing = client.routing(&args.job).await?;
    routing.check_range(range)?;
    match routing.element {
        ElementType::I32 => fetch_values::<i32>(args, format, &client, range).await,
        ElementType::F32 | ElementType::Bf16 => fetch_values::<f32>(args, format, &client, range).await,
    }
}

/// Values that rows are fetched as.
trait Value: Number {
    /// The type's name in the answer.
    const ELEMENT: &str;

    async fn fetch(fetch: Fetch<'_>, out: &mut [Self]) -> proto::Result<()>;
}

impl Value for f32 {
    const ELEMENT: &str = "float32";

    async fn fetch(fetch: Fetch<'_>, out: &mut [Self]) -> proto::Result<()> {
        fetch.into_slice(out).await
    }
}

impl Value for i32 {
    const ELEMENT: &str = "int32";

    async fn fetch(fetch: Fetch<'_>, out: &mut [Self]) -> proto::Result<()> {
        fetch.into_integers(out).await
    }
}

async fn fetch_values<V: Value>(
    args: &FetchArgs,
    format: Format,
    client: &Client,
    range: CoordinateRange,
) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    let rows = RowRange::new(args.steps.0.start, args.steps.0.end)?;
    check_rows(args, client, rows).await?;
    // The target is open and has its room before a row is bound, because a bound row counts as released.
    let mut writer = NpyWriter::create(&args.out, rows.len(), range.len())?;
    let drawn = match args.commitment {
        Some(_) => None,
        None => Some(KeptCommitment::beside(&out_file::replaced(&args.out))?),
    };
    let commitment =
        args.commitment.as_deref().or(drawn.as_ref().map(KeptCommitment::text)).unwrap_or_default();
    let at_once = (BATCH_BYTES / (4 * range.len())).max(1);
    let mut buffer = vec![V::default(); (at_once.min(rows.len()) * range.len()) as usize];
    let progress = Progress::bar(rows.len(), "rows");
    let mut start = rows.start;
    while start < rows.end {
        let batch = RowRange::new(start, (start + at_once).min(rows.end))?;
        let values = &mut buffer[..(batch.len() * range.len()) as usize];
        V::fetch(client.fetch(request(args, batch, range, commitment)), values).await?;
        writer.write(values)?;
        start = batch.end;
        progress.set_position(start - rows.start);
    }
    drop(progress);
    if let Some(drawn) = &drawn {
        drawn.finishing()?;
    }
    let sha256 = writer.finish()?;
    if let Some(drawn) = &drawn {
        drawn.complete()?;
    }
    let seconds = started.elapsed().as_secs_f64();
    if out_file::is_stdout(&args.out) {
        return Ok(ExitCode::SUCCESS);
    }
    let printed = Answer::new()
        .with("out", args.out.display().to_string())
        .with("rows", rows.len())
        .with("coordinates", range.len())
        .with("element", V::ELEMENT)
        .with("commitment", commitment)
        .with("sha256", hex::encode(sha256))
        .with("seconds", seconds)
        .with("bytes_per_second", (rows.len() * range.len() * 4) as f64 / seconds)
        .print(format);
    let out = args.out.display();
    printed.map_err(|error| {
        never_quiet(error, format_args!("{out} is written, and its rows are bound and count as released"))
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Says which rows before these are not bound. They may be fetched later, so a gap is no error: several commands may share a
/// job's rows. Nothing is said where the coordinator does not say how far the job is.
///
/// # Errors
/// Rows beyond the plan's iterations, before any of the others is bound.
async fn check_rows(args: &FetchArgs, client: &Client, rows: RowRange) -> proto::Result<()> {
    let Ok(job) = client.jobs().get(&args.job).await else { return Ok(()) };
    if rows.end > job.iterations {
        return Err(ServiceError::RowBeyondIterations { row: rows.end - 1, iterations: job.iterations });
    }
    if job.branch == args.branch && job.next_row < rows.start {
        let RowRange { start, .. } = rows;
        let next = job.next_row;
        streams::note(format_args!(
            "note: rows {next}..{start} of job {} are not bound: the next one was {next}. They can still be fetched, by --steps \
             {next}..{start}",
            args.job
        ));
    }
    Ok(())
}

fn request(args: &FetchArgs, rows: RowRange, range: CoordinateRange, commitment: &str) -> FetchRequest {
    let commitments = vec![Commitment::of_text(commitment); rows.len() as usize];
    let job = args.job.clone();
    let branch = args.branch;
    let deadline = Instant::now() + args.deadline;
    FetchRequest { job, branch, rows, range, commitments, deadline }
}
