//! `ringway phone`, from its start to its end.

use super::settings::{self, Settings, password};
use super::terminal::Screen;
use super::worker::PhoneHandle;
use super::{Input, calls, setup};
use crate::failure::Failure;
use clap::Args as ClapArgs;
use ringway_linux::process::{Signal, watch};
use ringway_ui::phone::{Effect, Event, Host, Model, PasswordPlace, Registration, Secret};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// Maximum age of the shown state.
const TICK: Duration = Duration::from_millis(250);
/// Events between two drawings: a flood of messages must not stop the drawing.
const EVENTS_MAX: usize = 500;

/// Arguments of `ringway phone`.
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "It asks who you are at its first start and writes that into phone.toml. F1 shows its keys.

Examples:
  ringway phone
  ringway phone --config alice.toml

Exit status: 0 done, 1 the phone failed, 2 bad usage or bad configuration."
)]
pub(crate) struct PhoneScreenArgs {
    /// The configuration, made at the first start (default: ./phone.toml)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Runs the phone until its person leaves.
pub(crate) fn run(args: &PhoneScreenArgs) -> Result<(), Failure> {
    let file = args.config.as_deref().unwrap_or(Path::new(settings::DEFAULT_FILE));
    let settings = Settings::load(file)?;
    let (password, why_asked) = kept_password(&settings, file)?;
    setup::check_address(file, &settings)?;
    if !Screen::is_there() {
        return Err(Failure::usage(
            "ringway phone needs a terminal; without one use ringway call and ringway answer",
        ));
    }
    let signals = watch().map_err(|error| Failure::failed(format!("cannot take signals: {error}")))?;
    let (send_input, events) = channel();
    let send_phone = send_input.clone();
    let phone = PhoneHandle::open(file, &settings, move |input| send_phone.send(input).is_ok())?;
    let mut model = Model::new(settings.pages, Host::System { file: file.display().to_string() });
    let mut effects = Vec::new();
    match why_asked {
        Some(why) => model.ask_password(&why),
        None => model.sign_in(password, &mut effects),
    }
    let calls = calls::beside(file);
    let read = calls::read(&calls, &mut model);
    let calls = read.is_ok().then_some(calls);
    if let Ok(Some(notice)) | Err(notice) = read {
        let _ = send_input.send(Input::Event(Event::NotSaved(notice)));
    }
    let screen = Screen::enter(send_input)
        .map_err(|error| Failure::failed(format!("cannot take over the terminal: {error}; check TERM")))?;
    let ended = ScreenSession { model, screen, phone: &phone, file: file.to_owned(), calls, effects }
        .sit(&events, &signals);
    let closed = phone.close();
    ended.and(closed)
}

/// The account's password, or why it must be asked for.
fn kept_password(settings: &Settings, file: &Path) -> Result<(Secret, Option<String>), Failure> {
    let Some(account) = &settings.pages.account else { return Ok((Secret::default(), None)) };
    match password::read(&account.password, file, &account.uri) {
        Ok(Some(password)) => Ok((password, None)),
        Ok(None) if account.registration == Registration::Unwanted => Ok((Secret::default(), None)),
        Ok(None) => Ok((Secret::default(), Some("the password is not here yet; type it".to_owned()))),
        Err(why) => match account.password {
            PasswordPlace::File(_) => Err(Failure::usage(why)),
            PasswordPlace::Keyring | PasswordPlace::Ask => Ok((Secret::default(), Some(why))),
        },
    }
}

/// A person in front of the phone.
struct ScreenSession<'d> {
    model: Model,
    screen: Screen,
    phone: &'d PhoneHandle,
    file: PathBuf,
    /// File of the history; `None`: it cannot be read, and is not written.
    calls: Option<PathBuf>,
    effects: Vec<Effect>,
}

impl ScreenSession<'_> {
    fn sit(mut self, inputs: &Receiver<Input>, signals: &Receiver<Signal>) -> Result<(), Failure> {
        loop {
            if self.act()? {
                return Ok(());
            }
            let now = self.screen.now();
            self.screen
                .draw(&self.model, now)
                .map_err(|error| Failure::failed(format!("cannot write to the terminal: {error}")))?;
            let first = match inputs.recv_timeout(TICK) {
                Ok(input) => input,
                Err(RecvTimeoutError::Timeout) => Input::Event(Event::Tick),
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            };
            for input in std::iter::once(first).chain(inputs.try_iter()).take(EVENTS_MAX) {
                let now = self.screen.now();
                match input {
                    Input::Event(event) => self.model.update(now, event, &mut self.effects),
                    Input::SignedIn => self.model.on_signed_in(now, &mut self.effects),
                    Input::NotSignedIn(why) => self.model.on_not_signed_in(now, &why),
                }
            }
            // SIGHUP says that the terminal is gone.
            if signals.try_recv().is_ok() || self.screen.is_gone() {
                self.model.quit(self.screen.now(), &mut self.effects);
                return self.act().map(|_| ());
            }
            if let Some(thread) = self.screen.panicked() {
                return Err(Failure::failed(format!("the phone ends: {thread} panicked; please report it")));
            }
            if self.phone.is_gone() {
                return Ok(());
            }
        }
    }

    /// Does what the model wants; true: the person leaves.
    fn act(&mut self) -> Result<bool, Failure> {
        for effect in std::mem::take(&mut self.effects) {
            let done = match effect {
                Effect::SignIn { account, password, stun } => {
                    self.phone.sign_in(account, password, stun);
                    Ok(())
                }
                Effect::Phone(command) => {
                    self.phone.command(command);
                    Ok(())
                }
                Effect::Save(settings) => settings::save(&settings, &self.file),
                Effect::KeepPassword { place, uri, password } => {
                    let kept = password::keep(&place, &self.file, &uri, &password);
                    match (kept, place) {
                        (Err(why), PasswordPlace::Keyring) => {
                            self.model.on_keyring_failed(self.screen.now(), &why, &mut self.effects);
                            Ok(())
                        }
                        (kept, _) => kept,
                    }
                }
                Effect::KeepCalls => match &self.calls {
                    Some(file) => calls::write(file, &self.model.past_calls()),
                    None => Ok(()),
                },
                Effect::ForgetPassword { place, uri } => password::forget(&place, &self.file, &uri),
                Effect::Bell => {
                    self.screen.ring().map_err(|error| format!("cannot write to the terminal: {error}"))
                }
                Effect::Leave => return Ok(true),
            };
            if let Err(why) = done {
                self.model.update(self.screen.now(), Event::NotSaved(why), &mut self.effects);
            }
        }
        Ok(false)
    }
}
