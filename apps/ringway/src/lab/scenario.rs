//! Scenario files of SIPp: `ringway lab scenario`, and the files of `ringway lab load`.

use super::args::{LoadArgs, ScenarioArgs};
use crate::failure::Failure;
use crate::output;
use clap::ValueEnum;
use ringway_lab::load::{Files, Length, Scenario};
use ringway_lab::sipp_xml::{self, FILE_BYTES_MAX, Style};
use ringway_lab::text_file;
use std::path::Path;

/// Writes a built-in scenario to standard output.
pub(super) fn run(args: &ScenarioArgs) -> Result<(), Failure> {
    let value = args.scenario.to_possible_value();
    let name = value.as_ref().map_or("", |value| value.get_name());
    let flow = args.scenario.flow();
    let classic = match args.callee {
        false => flow.caller(args.talk),
        true => flow
            .callee(args.ring)
            .ok_or_else(|| Failure::usage(format!("nobody is called in {name}; leave out --callee")))?,
    };
    let scenario = classic.scenario().map_err(|error| Failure::failed(error.to_string()))?;
    let style = Style { name, domain: &args.domain, is_challenged: args.digest };
    Ok(output::line(sipp_xml::write(&scenario, style).trim_end())?)
}

/// Scenarios of `--scenario-file` and `--callee-file`.
pub(super) fn files(args: &LoadArgs) -> Result<Option<Files>, Failure> {
    let Some(file) = &args.scenario_file else { return Ok(None) };
    let caller = read(file, args.talk)?;
    let callee = args.callee_file.as_deref().map(|file| read(file, args.ring)).transpose()?;
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let files = Files::new(name, caller, callee);
    files.map(Some).map_err(|error| {
        Failure::usage(format!("{error}; --scenario-file is of the caller, --callee-file of the called user"))
    })
}

fn read(file: &Path, pause: Length) -> Result<Scenario, Failure> {
    let text = text_file::read(file, FILE_BYTES_MAX)
        .map_err(|error| Failure::usage(format!("{error:#}; give a scenario file of SIPp")))?;
    sipp_xml::read(&text, pause)
        .map_err(|error| Failure::usage(format!("{}:{}: {}", file.display(), error.line, error.reason)))
}
