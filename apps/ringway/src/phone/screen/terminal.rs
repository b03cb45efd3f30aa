//! The terminal: taken over at the start, given back at the end, whatever the end is.

use super::event::{Now, WallTime};
use super::key::Key;
use super::model::{Event, Model};
use super::view;
use crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use crossterm::{ExecutableCommand, event as input};
use ratatui::DefaultTerminal;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long reading a key waits before it looks whether it is still wanted.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The terminal in our hands. Dropping it gives it back.
pub(super) struct Screen {
    terminal: DefaultTerminal,
    begun: Instant,
    is_over: Arc<AtomicBool>,
    /// The name of a thread that panicked.
    panicked: Arc<Mutex<Option<String>>>,
    reader: Option<JoinHandle<()>>,
}

impl Screen {
    /// True where a person sits in front of a terminal.
    pub(super) fn is_there() -> bool {
        io::stdin().is_terminal() && io::stdout().is_terminal()
    }

    /// Takes the terminal over; keys go to `keys`. A panic, in whatever thread, gives the terminal back before it is told.
    pub(super) fn enter(keys: Sender<Event>) -> io::Result<Self> {
        let is_over = Arc::new(AtomicBool::new(false));
        let panicked = Arc::new(Mutex::new(None));
        let terminal = ratatui::try_init()?;
        note_panics(panicked.clone());
        let begun = Instant::now();
        let mut screen = Self { terminal, begun, is_over: is_over.clone(), panicked, reader: None };
        io::stdout().execute(EnableBracketedPaste)?;
        let body = move || read_keys(&keys, &is_over);
        screen.reader = Some(std::thread::Builder::new().name("keys".to_owned()).spawn(body)?);
        Ok(screen)
    }

    /// Draws what the model looks like.
    pub(super) fn draw(&mut self, model: &Model, now: Now) -> io::Result<()> {
        self.terminal.draw(|frame| {
            if let Some(cursor) = view::draw(model, now, frame.buffer_mut()) {
                frame.set_cursor_position(cursor);
            }
        })?;
        Ok(())
    }

    /// Makes the terminal's noise.
    pub(super) fn ring(&mut self) -> io::Result<()> {
        io::stdout().write_all(b"\x07")?;
        io::stdout().flush()
    }

    /// The moment.
    pub(super) fn now(&self) -> Now {
        let local = jiff::Zoned::now();
        let part = |value: i8| u8::try_from(value).unwrap_or(0);
        let wall = WallTime {
            month: part(local.month()),
            day: part(local.day()),
            hour: part(local.hour()),
            minute: part(local.minute()),
            second: part(local.second()),
            millisecond: u16::try_from(local.millisecond()).unwrap_or(0),
        };
        Now { elapsed: self.begun.elapsed(), wall }
    }

    /// A thread that panicked. The terminal has been given back then, and nothing can be drawn any more.
    pub(super) fn panicked(&self) -> Option<String> {
        self.panicked.lock().ok()?.clone()
    }

    /// True when reading keys has ended by itself: the terminal is gone.
    pub(super) fn is_gone(&self) -> bool {
        self.reader.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // A terminal that is gone cannot be given back.
        let _ = io::stdout().execute(DisableBracketedPaste);
        let _ = ratatui::try_restore();
        if let Some(reader) = self.reader.take() {
            // Reading from a terminal that is gone may never end; the thread then ends with the process.
            let until = Instant::now() + 3 * LOOK_EVERY;
            while !reader.is_finished() && Instant::now() < until {
                std::thread::sleep(LOOK_EVERY / 10);
            }
            if reader.is_finished() {
                let _ = reader.join();
            }
        }
    }
}

/// Notes which thread panics, in front of what is done about panics already: giving the terminal back, telling why.
fn note_panics(panicked: Arc<Mutex<Option<String>>>) {
    let known = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let name = std::thread::current().name().unwrap_or("a thread").to_owned();
        if let Ok(mut panicked) = panicked.lock() {
            panicked.get_or_insert(name);
        }
        known(info);
    }));
}

fn read_keys(keys: &Sender<Event>, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        let event = match input::poll(LOOK_EVERY) {
            Ok(false) => continue,
            Ok(true) => input::read(),
            Err(_) => return,
        };
        let event = match event {
            Ok(input::Event::Key(key)) => Key::from_event(&key).map(Event::Key),
            Ok(input::Event::Paste(text)) => Some(Event::Paste(text)),
            // The window has another size: it is drawn anew.
            Ok(input::Event::Resize(..)) => Some(Event::Tick),
            Ok(input::Event::FocusGained | input::Event::FocusLost | input::Event::Mouse(_)) => None,
            Err(_) => return,
        };
        if let Some(event) = event
            && keys.send(event).is_err()
        {
            return;
        }
    }
}
