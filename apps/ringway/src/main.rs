//! The one program users run: a SIP server, and the commands to look after it.
//!
//! Does: reads arguments and configuration, wires the drivers to the protocol machines, and tells people what happened
//! in one line and an exit status: 0 done, 1 failed, 2 bad usage or bad configuration.
//!
//! Does not: know SIP. Start reading at [`args::Command`] for what there is, at `serve.rs` for the server.

mod args;
mod check;
mod config;
mod failure;
mod log;
mod output;
mod password;
mod phone;
mod random;
mod serve;
mod show;
mod user;

use args::{Args, Command};
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
        Command::Check(check) => check::run(&check),
        Command::Show(show) => show::run(&show),
        Command::Call(call) => phone::call(&call),
        Command::Answer(answer) => phone::answer(&answer),
        Command::Phone(phone) => phone::phone(&phone),
        Command::Options(options) => phone::options(*options),
        Command::Audio(audio) => phone::audio(&audio),
        Command::Demo(demo) => phone::demo(&demo),
    }
}
