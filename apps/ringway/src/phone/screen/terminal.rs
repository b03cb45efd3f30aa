//! The user's terminal: taken over at the start, restored at the end, whatever the end is.

use super::Input;
use crossterm::event::{
    DisableBracketedPaste, EnableBracketedPaste, KeyCode, KeyEvent, KeyEventKind, KeyModifiers,
};
use crossterm::terminal::{self, EnterAlternateScreen, LeaveAlternateScreen};
use crossterm::{ExecutableCommand, event as input};
use ringway_ui::phone::{self, Event, Model, Now, WallTime};
use ringway_ui::{Cells, Key, Terminal};
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time between two checks of the end while no key is pressed.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The user's terminal. Dropping it restores it.
pub(super) struct Screen {
    cells: Cells,
    terminal: Terminal,
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

    /// Takes the terminal over; keys go to `keys`. A panic in any thread restores it before the message is written.
    pub(super) fn enter(keys: Sender<Input>) -> io::Result<Self> {
        let is_over = Arc::new(AtomicBool::new(false));
        let panicked = Arc::new(Mutex::new(None));
        note_panics(panicked.clone());
        let mut screen = Self {
            cells: Cells::with_size(0, 0),
            terminal: Terminal::local(),
            begun: Instant::now(),
            is_over: is_over.clone(),
            panicked,
            reader: None,
        };
        terminal::enable_raw_mode()?;
        io::stdout().execute(EnterAlternateScreen)?.execute(EnableBracketedPaste)?;
        let body = move || read_keys(&keys, &is_over);
        screen.reader = Some(std::thread::Builder::new().name("keys".to_owned()).spawn(body)?);
        Ok(screen)
    }

    /// Draws the page of the model.
    pub(super) fn draw(&mut self, model: &Model, now: Now) -> io::Result<()> {
        let (columns, rows) = terminal::size()?;
        let size = (usize::from(columns), usize::from(rows));
        if size != (self.cells.columns(), self.cells.rows()) {
            self.cells = Cells::with_size(size.0, size.1);
            self.terminal.redraw();
        }
        phone::draw(model, now, None, &mut self.cells);
        let (mut bytes, mut out) = ([0; Terminal::STEP_BYTES_MAX], io::stdout().lock());
        loop {
            let count = self.terminal.step(&self.cells, &mut bytes);
            match bytes.get(..count).filter(|bytes| !bytes.is_empty()) {
                Some(bytes) => out.write_all(bytes)?,
                None => return out.flush(),
            }
        }
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
        Now { elapsed: self.begun.elapsed(), wall: Some(wall) }
    }

    /// A thread that panicked. The terminal has been given back then, and nothing can be drawn any more.
    pub(super) fn panicked(&self) -> Option<String> {
        self.panicked.lock().ok()?.clone()
    }

    /// True when reading keys has ended: the terminal is gone.
    pub(super) fn is_gone(&self) -> bool {
        self.reader.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        restore();
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

/// Restores the terminal. The errors of one that is gone are of no use.
fn restore() {
    let _ = terminal::disable_raw_mode();
    let mut out = io::stdout();
    let _ = out.write_all(Terminal::FAREWELL.as_bytes());
    let _ = out.execute(DisableBracketedPaste).and_then(|out| out.execute(LeaveAlternateScreen));
}

/// Has a panic restore the terminal, and note the thread, before its message is written.
fn note_panics(panicked: Arc<Mutex<Option<String>>>) {
    let known = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let name = std::thread::current().name().unwrap_or("a thread").to_owned();
        if let Ok(mut panicked) = panicked.lock() {
            panicked.get_or_insert(name);
        }
        restore();
        known(info);
    }));
}

fn read_keys(keys: &Sender<Input>, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        let event = match input::poll(LOOK_EVERY) {
            Ok(false) => continue,
            Ok(true) => input::read(),
            Err(_) => return,
        };
        let event = match event {
            Ok(input::Event::Key(key)) => key_of(&key).map(Event::Key),
            Ok(input::Event::Paste(text)) => Some(Event::Paste(text)),
            // The window has another size: it is drawn anew.
            Ok(input::Event::Resize(..)) => Some(Event::Tick),
            Ok(input::Event::FocusGained | input::Event::FocusLost | input::Event::Mouse(_)) => None,
            Err(_) => return,
        };
        if let Some(event) = event
            && keys.send(Input::Event(event)).is_err()
        {
            return;
        }
    }
}

/// The key of a terminal's event; `None`: none that the pages use.
fn key_of(event: &KeyEvent) -> Option<Key> {
    if event.kind == KeyEventKind::Release {
        return None;
    }
    let key = match event.code {
        KeyCode::Char(c) if event.modifiers.contains(KeyModifiers::CONTROL) => {
            Key::Ctrl(c.to_ascii_lowercase())
        }
        KeyCode::Char(c) if event.modifiers.contains(KeyModifiers::ALT) => Key::Alt(c),
        KeyCode::Char(c) => Key::Char(c),
        KeyCode::F(number) => Key::Function(number),
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Tab => Key::Tab,
        KeyCode::BackTab => Key::BackTab,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Delete => Key::Delete,
        _ => return None,
    };
    Some(key)
}
