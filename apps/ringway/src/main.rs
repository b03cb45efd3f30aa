//! The program `ringway`: a SIP server, its commands, and a phone.
//!
//! Does: reads arguments and configuration, connects drivers, services and protocol machines, and reports failures in
//! one line with an exit status: 0 done, 1 failed, 2 bad usage or bad configuration.
//!
//! Does not: interpret SIP. Start reading at [`args::Command`], for the server at `serve/mod.rs`.

mod address;
mod admin_client;
mod args;
mod backup;
mod block;
mod cert;
mod check;
mod config;
mod database;
mod failure;
mod generate;
mod lab;
mod log;
mod migrate;
mod output;
mod password;
mod phone;
mod reload;
mod serve;
mod show;
mod tls_args;
mod trace;
mod user;

use args::{Args, Command, ConfigCommand};
use config::Config;
use failure::Failure;
use std::process::ExitCode;

fn main() -> ExitCode {
    let done = match args::parse() {
        Ok(args) => run(args),
        Err(status) => return status,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn run(args: Args) -> Result<(), Failure> {
    match args.command {
        Command::Serve(serve) => {
            let config = Config::load(serve.config.as_deref())?;
            let _logging = log::start(&config.log);
            serve::run(config)
        }
        Command::User(user) => user::run(user),
        Command::Cert(cert) => cert::run(cert),
        Command::Check(check) => check::run(&check),
        Command::Config(args) => match args.command {
            ConfigCommand::Example => Ok(output::line(config::example().trim_end())?),
        },
        Command::Reload(reload) => reload::run(&reload),
        Command::Drain(args) => reload::drain(&args),
        Command::Block(block) => block::run(&block),
        Command::Backup(args) => backup::backup(&args),
        Command::Restore(args) => backup::restore(&args),
        Command::Migrate(args) => migrate::run(&args),
        Command::Show(show) => show::run(&show),
        Command::Trace(trace) => trace::run(&trace),
        Command::Call(call) => phone::call(&call),
        Command::Answer(answer) => phone::answer(&answer),
        Command::Phone(phone) => phone::phone(&phone),
        Command::Options(options) => phone::options(*options),
        Command::Audio(audio) => phone::audio(&audio),
        Command::Lab(lab) => lab::run(lab),
        Command::Demo(demo) => phone::demo(&demo),
        Command::Completions(completions) => generate::completions(&completions),
        Command::Man(man) => generate::man(&man),
    }
}
