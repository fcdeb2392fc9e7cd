//! The commands that begin, watch and steer jobs.
//!
//! Invariant: progress goes to standard error, what came of the job to standard output; who waits for a job is told by
//! the exit code whether it was done.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use anyhow::{Result, bail};
use holdfast_api::{ConversionPlan, ConvertSpace, DiskRetired, Job, JobChanged, JobState, RetireDisk, SetPace, word};
use holdfast_model::{BLOCK_BYTES, ByteSize};
use serde::Serialize;

use crate::arguments::{ConvertOptions, JobCommand, StartOptions};
use crate::client::Client;
use crate::output::{job_line, print, print_line};
use crate::remote::{rounded, tell};

/// How often a job that is watched is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(300);

/// Does a job command.
pub async fn job_command(client: &Client, json: bool, command: JobCommand) -> Result<()> {
    match command {
        JobCommand::List { all } => {
            let mut jobs: Vec<Job> = client.get("/jobs").await?;
            jobs.retain(|job| all || !job.state.has_ended());
            print(json, &jobs)
        }
        JobCommand::Show { id } => print(json, &client.get::<Job>(&format!("/jobs/{id}")).await?),
        JobCommand::Watch { id } => watch(client, json, id).await,
        JobCommand::Pause { id } => change(client, json, id, "pause").await,
        JobCommand::Resume { id } => change(client, json, id, "resume").await,
        JobCommand::Cancel { id } => change(client, json, id, "cancel").await,
        JobCommand::Set { id, priority, cap } => {
            let request = SetPace { priority, cap_bytes_per_second: cap.map(|cap| cap.0) };
            let answer: JobChanged = client.patch(&format!("/jobs/{id}"), &request).await?;
            tell(json, &answer, answer.changed, format!("job {id} is set"))
        }
    }
}

async fn change(client: &Client, json: bool, id: u64, verb: &str) -> Result<()> {
    let answer: JobChanged = client.post(&format!("/jobs/{id}/{verb}"), &()).await?;
    tell(json, &answer, answer.changed, format!("job {id} is {}", word(&answer.job.state)))
}

/// Asks for the job at `path`, and follows it if that is wanted.
pub async fn start(client: &Client, json: bool, path: &str, options: StartOptions) -> Result<()> {
    let answer: JobChanged = client.post(path, &options.pace()).await?;
    begun(client, json, answer, options.wait).await
}

/// Asks for the conversion of the space at `path`, and follows it if that is wanted.
pub async fn convert(
    client: &Client,
    json: bool,
    path: &str,
    shape: ConvertOptions,
    options: StartOptions,
) -> Result<()> {
    let request = ConvertSpace {
        layout: shape.layout.map(Into::into),
        copies: shape.copies,
        parity: shape.parity,
        columns: shape.columns,
        interleave_bytes: shape.interleave.map(ByteSize::bytes),
        integrity: shape.integrity.map(Into::into),
        journal_bytes: shape.journal.map(ByteSize::bytes),
        thin: (shape.thin || shape.fixed).then_some(shape.thin),
        size_bytes: shape.size.map(ByteSize::bytes),
        discard_beyond: shape.discard_beyond,
        pace: options.pace(),
    };
    let say_rounded = || {
        let Some(size) = shape.size.filter(|_| !json) else { return Ok(()) };
        let whole = size.bytes().next_multiple_of(BLOCK_BYTES);
        rounded(size, whole).strip_prefix("; ").map_or(Ok(()), print_line)
    };
    if shape.dry_run {
        let plan: ConversionPlan = client.post(&format!("{path}/plan"), &request).await?;
        say_rounded()?;
        return print(json, &plan);
    }
    let answer: JobChanged = client.post(path, &request).await?;
    say_rounded()?;
    begun(client, json, answer, options.wait).await
}

/// Retires the disk at `path`, and follows the job that empties it if that is wanted.
pub async fn retire(
    client: &Client,
    json: bool,
    path: &str,
    (evacuate, force): (bool, bool),
    options: StartOptions,
) -> Result<()> {
    let request = RetireDisk { evacuate, force, pace: options.pace() };
    let answer: DiskRetired = client.post(path, &request).await?;
    if let (true, Some(job)) = (options.wait, &answer.job) {
        return watch(client, json, job.id).await;
    }
    let moving =
        answer.job.as_ref().map(|job| format!("; job {} moves its data to other disks", job.id)).unwrap_or_default();
    tell(json, &answer, answer.changed, format!("disk {} is retired{moving}", answer.disk.path))
}

/// Tells of a job that was asked for, and follows it if that is wanted.
pub async fn begun(client: &Client, json: bool, answer: JobChanged, wait: bool) -> Result<()> {
    told(client, json, (&answer, answer.changed, &answer.job), wait).await
}

/// The same of an answer that says more than of the job.
pub async fn told<T: Serialize>(
    client: &Client,
    json: bool,
    (answer, changed, job): (&T, bool, &Job),
    wait: bool,
) -> Result<()> {
    if wait {
        return watch(client, json, job.id).await;
    }
    let done = format!("job {}, {} of {}, is {}", job.id, word(&job.kind), job.target(), word(&job.state));
    tell(json, answer, changed, done)
}

/// Shows the progress of a job until it ends, and then what came of it.
async fn watch(client: &Client, json: bool, id: u64) -> Result<()> {
    let live = std::io::stderr().is_terminal();
    let mut shown = None;
    let job = loop {
        let job: Job = client.get(&format!("/jobs/{id}")).await?;
        let mut out = std::io::stderr().lock();
        if live {
            let _ = write!(out, "\r{}\x1b[K", job_line(&job)).and_then(|()| out.flush());
        } else if shown.replace(job.state) != Some(job.state) {
            let _ = writeln!(out, "{}", job_line(&job));
        }
        drop(out);
        if job.state.has_ended() {
            break job;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    };
    if live {
        eprintln!();
    }
    print(json, &job)?;
    match (job.state, job.error) {
        (JobState::Done, _) => Ok(()),
        (_, Some(error)) => Err(error.into()),
        (state, None) => bail!("job {id}: it was {}; next: start a new job", word(&state)),
    }
}
