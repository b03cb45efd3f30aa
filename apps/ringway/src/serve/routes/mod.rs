//! Trunks, routes and destination rules of the configuration file, edited by the admin API.
//!
//! `text.rs` finds and replaces the sections, `file.rs` the file. A change is a new file and an ordinary reload; when the reload is
//! refused, the old file comes back.

mod file;
mod text;

use super::reload::ReloadRequest;
use crate::config::{Config, ConfigError};
use file::{FileFault, Replaced, RoutesFile};
use ringway_admin::{Answer, RoutesEdit, RoutesEffect};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use text::{RoutesText, TextFault};

/// Editor of the server's configuration file.
pub(super) struct RoutesEditor {
    /// `None`: the server runs without a file.
    file: Option<PathBuf>,
    /// One change at a time.
    saving: Mutex<()>,
}

impl RoutesEditor {
    pub(super) const fn new(file: Option<PathBuf>) -> Self {
        Self { file, saving: Mutex::new(()) }
    }

    /// The sections, the version of the file, and `keys` that are in force.
    pub(super) fn show(&self, keys: &Value) -> Answer {
        let shown = || {
            let path = self.path()?;
            let file = RoutesFile::of(path)?;
            let text = Config::read(path)?;
            let in_file = |fault| invalid(path, fault);
            let sections = RoutesText::find(&text).map_err(in_file)?.shown().map_err(in_file)?;
            let read_only = file.check_writable().err().map(|fault| fault.message);
            Ok(Answer::done(json!({
                "file": path.display().to_string(),
                "version": version_of(&text),
                "text": sections,
                "read_only": read_only,
                "in_force": in_force(keys),
            })))
        };
        shown().unwrap_or_else(|fault: FileFault| Answer::refused(fault.status, fault.message))
    }

    /// Replaces the sections, or tells what that would change. `reload` reloads the configuration.
    pub(super) fn edit(&self, edit: &RoutesEdit, reload: impl Fn(ReloadRequest) -> Answer) -> Answer {
        let _one = self.saving.lock().unwrap_or_else(PoisonError::into_inner);
        self.edited(edit, reload).unwrap_or_else(|refused| refused)
    }

    fn edited(&self, edit: &RoutesEdit, reload: impl Fn(ReloadRequest) -> Answer) -> Result<Answer, Answer> {
        let refused = |fault: FileFault| Answer::refused(fault.status, fault.message);
        let path = self.path().map_err(refused)?;
        let file = RoutesFile::of(path).map_err(refused)?;
        let old = Config::read(path).map_err(|failure| refused(failure.into()))?;
        let version = version_of(&old);
        if !edit.version.eq_ignore_ascii_case(&version) {
            let why = format!("{} changed meanwhile; load the routes again", path.display());
            return Err(Answer { status: 412, body: json!({ "error": why, "version": version }) });
        }
        let new = RoutesText::find(&old).map_err(|fault| refused(invalid(path, fault)))?.replaced(&edit.text);
        let new = new.map_err(|fault| {
            let error = ConfigError {
                file: path.display().to_string(),
                line: fault.in_file.line,
                key: String::new(),
                message: fault.in_file.message,
            };
            refusal(&[error], |_| Some(fault.line))
        })?;
        if new.text.len() as u64 > Config::FILE_BYTES_MAX {
            let (bytes, max) = (new.text.len(), Config::FILE_BYTES_MAX);
            let why = format!("the file would have {bytes} bytes; a configuration has at most {max}");
            return Err(Answer::refused(413, why));
        }
        let secrets = text::secrets(&new.text);
        let config = Config::parse(&new.text, Some(path))
            .map_err(|errors| without(&secrets, refusal(&errors, |line| new.line_sent(line))))?;
        let mut answer = match edit.effect {
            RoutesEffect::Preview => {
                let mut answer = reload(ReloadRequest::Compare(config.keys.clone()));
                add(&mut answer, "warnings", config.warnings());
                answer
            }
            RoutesEffect::Save => {
                let is_same = new.text == old;
                let saved =
                    if is_same { None } else { Some(file.replace(&old, &new.text).map_err(refused)?) };
                let answer = reload(ReloadRequest::Apply);
                let version = version_of(&new.text);
                saved.map_or(answer.clone(), |saved| finished(answer, saved, &version))
            }
        };
        if let Some(body) = answer.body.as_object_mut() {
            body.entry("version").or_insert(json!(version));
        }
        Ok(without(&secrets, answer))
    }

    fn path(&self) -> Result<&Path, FileFault> {
        self.file.as_deref().ok_or_else(|| FileFault {
            status: 409,
            message:
                "the server runs without a configuration file; make an empty ringway.toml in its folder and restart it, or start it with `ringway serve --config FILE`"
                    .to_owned(),
        })
    }
}

/// Keeps the old file after a reload, or puts it back.
fn finished(mut answer: Answer, saved: Replaced, version: &str) -> Answer {
    if answer.status == 200 {
        match saved.keep_before() {
            Ok(before) => {
                tracing::info!("the administrator changed the routes; the old file is {}", before.display());
                answer.body["before"] = json!(before.display().to_string());
            }
            Err(why) => add(&mut answer, "warnings", vec![why]),
        }
        answer.body["version"] = json!(version);
    } else {
        let line = match saved.put_back() {
            Ok(()) => "the old file is back".to_owned(),
            Err(why) => {
                tracing::error!("{why}");
                why
            }
        };
        add(&mut answer, "errors", vec![line]);
    }
    answer
}

/// Adds lines to a list of the answer.
fn add(answer: &mut Answer, list: &str, lines: Vec<String>) {
    match answer.body.get_mut(list).and_then(Value::as_array_mut) {
        Some(list) => list.extend(lines.into_iter().map(Value::from)),
        None => answer.body[list] = json!(lines),
    }
}

/// Answer to a configuration with errors, like that of a refused reload. `line_sent` maps a line of the file to that of the text that was
/// sent.
fn refusal(errors: &[ConfigError], line_sent: impl Fn(usize) -> Option<usize>) -> Answer {
    let further = errors.len().saturating_sub(ERRORS_MAX);
    let errors = errors.get(..ERRORS_MAX).unwrap_or(errors);
    let mut lines: Vec<String> = errors.iter().map(ConfigError::to_string).collect();
    if further > 0 {
        lines.push(format!("{further} more errors; correct these first"));
    }
    let in_text: Vec<Option<usize>> = errors.iter().map(|error| line_sent(error.line)).collect();
    let body = json!({
        "ok": false, "applied": false, "changes": [], "restart": [], "warnings": [], "errors": lines,
        "error": lines.first(), "lines": in_text,
    });
    Answer { status: 422, body }
}

/// The answer without the values of secret keys, which messages quote.
fn without(secrets: &[String], mut answer: Answer) -> Answer {
    let hide = |text: &mut String| {
        for secret in secrets {
            let quoted = format!("{secret:?}");
            if text.contains(&quoted) {
                *text = text.replace(&quoted, "\"(secret)\"");
            }
            if secret.len() >= HIDDEN_BYTES_MIN && text.contains(secret.as_str()) {
                *text = text.replace(secret.as_str(), "(secret)");
            }
        }
    };
    for list in ["errors", "warnings"] {
        for line in answer.body.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            if let Value::String(text) = line {
                hide(text);
            }
        }
    }
    if let Some(Value::String(text)) = answer.body.get_mut("error") {
        hide(text);
    }
    answer
}

/// Keys of routing.
fn in_force(keys: &Value) -> Value {
    let is_routing =
        |key: &str| ["trunk.", "route.", "destination."].iter().any(|section| key.starts_with(section));
    let keys = keys.as_object().into_iter().flatten().filter(|(key, _)| is_routing(key));
    Value::Object(keys.map(|(key, value)| (key.clone(), value.clone())).collect())
}

fn invalid(path: &Path, fault: TextFault) -> FileFault {
    let TextFault { line, message } = fault;
    FileFault { status: 409, message: format!("{}:{line}: {message}", path.display()) }
}

/// SHA-256 of the file in hexadecimal digits.
fn version_of(text: &str) -> String {
    base16ct::lower::encode_string(&Sha256::digest(text))
}

/// Maximum number of errors in an answer.
const ERRORS_MAX: usize = 100;
/// A shorter secret is hidden where it is quoted only: it may be a part of other words.
const HIDDEN_BYTES_MIN: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_a_file_says_how_to_get_one() {
        let editor = RoutesEditor::new(None);
        let edit = RoutesEdit { text: String::new(), version: String::new(), effect: RoutesEffect::Save };
        let edited = editor.edit(&edit, |_| Answer::done(Value::Null));
        for answer in [editor.show(&Value::Null), edited] {
            assert!(answer.status == 409 && answer.body["error"].to_string().contains("--config FILE"));
        }
    }

    #[test]
    fn a_text_with_many_errors_has_a_short_answer() {
        let error = |line| ConfigError {
            file: "ringway.toml".to_owned(),
            line,
            key: "route".to_owned(),
            message: "is wrong".to_owned(),
        };
        let errors: Vec<ConfigError> = (1..=100_000).map(error).collect();
        let answer = refusal(&errors, |_| None);
        let lines = answer.body["errors"].as_array().unwrap();
        assert_eq!((lines.len(), lines[100].as_str()), (101, Some("99900 more errors; correct these first")));
    }

    #[test]
    fn messages_have_no_secrets() {
        let refused = Answer {
            status: 422,
            body: json!({ "errors": ["\"ab\" of s3cret-x"], "error": "tab s3cret-x" }),
        };
        let hidden = without(&["ab".to_owned(), "s3cret-x".to_owned()], refused);
        assert_eq!(hidden.body["errors"][0], "\"(secret)\" of (secret)");
        assert_eq!(hidden.body["error"], "tab (secret)");
    }
}
