//! `holdfast`: the daemon and its command line, in one binary.
//!
//! Invariant: what a command answers goes to standard output, everything else to standard error. Exit code 0 is done, 1
//! refused or failed, 2 used wrongly.

mod access;
mod acls;
mod arguments;
mod client;
mod daemon;
mod demo;
mod documentation;
mod integrity;
mod jobs;
mod journals;
mod login;
mod notify;
mod output;
mod payload;
mod remote;
mod servers;
mod settings;
mod snapshots;
mod targets;
mod trust;
mod volumes;

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;

use arguments::{AccountCommand, Arguments, Command};
use client::Client;

/// Threads of the daemon's management; I/O has its own.
const MANAGEMENT_THREADS: usize = 2;
const BLOCKING_THREADS: usize = 16;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if output::is_without_reader(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("holdfast: {}", output::in_full(&error));
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<()> {
    let Arguments { socket, server, json, command } = arguments;
    match command {
        Command::Completion { shell } => return documentation::print_completion(shell),
        Command::Openapi => return output::print_line(holdfast_http::document().trim_end()),
        Command::Man { dir } => return documentation::write_manual(&dir),
        _ => {}
    }
    let threads = if matches!(command, Command::Serve(_) | Command::Demo(_)) { MANAGEMENT_THREADS } else { 1 };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .max_blocking_threads(BLOCKING_THREADS)
        .thread_name("management")
        .enable_all()
        .build()
        .context("threads cannot be started")?;
    runtime.block_on(async move {
        let command = match command {
            Command::Serve(options) => return daemon::serve(*options, &socket).await,
            Command::Demo(options) => return demo::demo(options, json).await,
            Command::Login(options) => return login::login(options, json).await,
            Command::Logout => return login::logout(server.as_deref(), json).await,
            Command::Restore(options) => return access::restore(json, options),
            Command::Account(AccountCommand::Password) => return login::change_password(server.as_deref(), json).await,
            other => other,
        };
        let client = match &server {
            Some(url) => login::client(url)?,
            None => Client::new(&socket),
        };
        match command {
            Command::Disk(command) => remote::disk_command(&client, json, command).await,
            Command::Pool(command) => remote::pool_command(&client, json, command).await,
            Command::Space(command) => remote::space_command(&client, json, command).await,
            Command::Volume(command) => volumes::volume_command(&client, json, command).await,
            Command::Snapshot(command) => snapshots::snapshot_command(&client, json, command).await,
            Command::Nbd(command) => remote::nbd_command(&client, json, command).await,
            Command::Target(command) => targets::target_command(&client, json, command).await,
            Command::Lun(command) => targets::lun_command(&client, json, command).await,
            Command::Initiator(command) => targets::initiator_command(&client, json, command).await,
            Command::Iscsi(command) => targets::iscsi_command(&client, json, command).await,
            Command::Reservation(command) => targets::reservation_command(&client, json, command).await,
            Command::Job(command) => jobs::job_command(&client, json, command).await,
            Command::Event(command) => remote::event_command(&client, json, command).await,
            Command::Notify(command) => notify::notify_command(&client, json, command).await,
            Command::Status { all } => remote::status(&client, json, all).await,
            Command::History { kind, name, last, points } => {
                remote::history(&client, json, kind, &name, last.as_secs(), points).await
            }
            Command::Account(command) => access::account_command(&client, json, command).await,
            Command::Token(command) => access::token_command(&client, json, command).await,
            Command::Audit(which) => access::audit(&client, json, which).await,
            Command::Settings { command } => settings::settings_command(&client, json, command).await,
            Command::Whoami => access::whoami(&client, json).await,
            Command::Backup { file } => access::backup(&client, json, &file).await,
            Command::Serve(_)
            | Command::Demo(_)
            | Command::Login(_)
            | Command::Logout
            | Command::Restore(_)
            | Command::Completion { .. }
            | Command::Openapi
            | Command::Man { .. } => Ok(()),
        }
    })
}
