//! Output of a terminal's bytes, as the emulator vt100 shows it.

use super::scene::Scene;
use crate::{Cells, Key, SPARE_ROW, SerialKeys, Style, Terminal, Typed};
use alloc::string::String;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

/// A terminal and its emulator.
struct Line {
    terminal: Terminal,
    emulator: vt100::Parser,
    bytes: usize,
    /// Bytes of a character that is not whole yet.
    unread: Vec<u8>,
}

impl Line {
    fn new(rows: u16) -> Self {
        let size = |count: u16| std::num::NonZero::new(count).unwrap();
        let mut terminal = Terminal::serial(SPARE_ROW);
        terminal.set_size(rows, 80);
        Self { terminal, emulator: vt100::Parser::new(size(rows), size(80), 0), bytes: 0, unread: Vec::new() }
    }

    /// One step with so much room; gives the bytes.
    fn step(&mut self, cells: &Cells, room: usize) -> Vec<u8> {
        let mut out = vec![0; room];
        let count = self.terminal.step(cells, &mut out);
        assert!(count <= room.min(Terminal::STEP_BYTES_MAX), "{count} bytes");
        out.truncate(count);
        self.unread.extend_from_slice(&out);
        // The emulator misreads a character that comes in two pieces; terminals read bytes.
        let whole = self.unread.utf8_chunks().next().map_or(0, |chunk| chunk.valid().len());
        let rest = self.unread.split_off(whole);
        self.emulator.process(&std::mem::replace(&mut self.unread, rest));
        self.bytes += count;
        out
    }

    /// Steps until it shows these cells; gives how many bytes that took.
    fn settle(&mut self, cells: &Cells, room: usize) -> usize {
        let before = self.bytes;
        for _ in 0..20_000 {
            if self.step(cells, room).is_empty() {
                return self.bytes - before;
            }
        }
        panic!("it never ends");
    }

    /// The emulator's row must be this row of the cells, colours included.
    fn assert_row(&self, at: u16, cells: &Cells, y: usize) {
        for (column, cell) in (0..80).zip(cells.all().chunks(80).nth(y).unwrap()) {
            let shown = self.emulator.screen().cell(at, column).unwrap();
            let text = if shown.contents().is_empty() { " " } else { shown.contents() };
            assert_eq!(text, cell.character().to_string(), "row {y}, column {column}");
            let attribute = cell.style().attribute();
            assert_eq!(shown.bgcolor(), colour(attribute >> 4), "row {y}, column {column}");
            if text != " " {
                assert_eq!(shown.fgcolor(), colour(attribute & 15), "row {y}, column {column}: {text}");
            }
        }
    }

    fn assert_all(&self, cells: &Cells) {
        (0..25).for_each(|y| self.assert_row(y, cells, y.into()));
    }
}

/// A PC's colour as a terminal numbers it.
fn colour(pc: u8) -> vt100::Color {
    vt100::Color::Idx([0, 4, 2, 6, 1, 5, 3, 7, 8, 12, 10, 14, 9, 13, 11, 15][usize::from(pc)])
}

#[test]
fn it_shows_every_page() {
    let (mut scene, mut line) = (Scene::new(), Line::new(25));
    scene.minute();
    for keys in [
        &[][..],
        &[Key::Char('2')],
        &[Key::End],
        &[Key::Char('l')],
        &[Key::Tab],
        &[Key::Tab],
        &[Key::Char('?')],
    ] {
        let cells = scene.press(keys).clone();
        line.settle(&cells, 64);
        line.assert_all(&cells);
        assert_eq!(line.settle(&cells, 64), 0, "what is shown is not sent again");
    }
    assert!(line.emulator.screen().hide_cursor());
}

#[test]
fn columns_do_not_depend_on_the_width_that_a_terminal_gives_to_wide_letters() {
    let mut line = Line::new(25);
    let mut cells = Cells::new();
    // The emulator draws some of these letters narrower than the cells.
    for (y, name) in ["山田太郎", "👍🏽 Zoë", "🇩🇪 e\u{301}", "☎ home"].into_iter().enumerate()
    {
        cells.letters(2, y, 20, Style::Plain, name);
        cells.letters(30, y, 20, Style::Plain, "sip:aligned@x");
    }
    line.settle(&cells, 64);
    for y in 0..4 {
        let row: String = (30..43).map(|x| line.emulator.screen().cell(y, x).unwrap().contents()).collect();
        assert_eq!(row, "sip:aligned@x");
    }
}

#[test]
fn it_catches_up_with_what_changes_meanwhile() {
    // A linear congruential generator: the same sequence in each run.
    let mut random = 1_u64;
    let mut next = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    let styles = [Style::Plain, Style::Title, Style::Bad, Style::Alarm, Style::Bar];
    let (mut cells, mut line) = (Cells::new(), Line::new(25));
    for round in 0..400 {
        for _ in 0..next(12) {
            let (x, y) = (next(80) as usize, next(25) as usize);
            let text: String = (0..=next(9)).map(|_| ['a', ' ', 'é', '█', '~'][next(5) as usize]).collect();
            cells.text(x, y, 10, styles[next(5) as usize], text);
        }
        (0..next(4)).for_each(|_| {
            line.step(&cells, 1 + next(20) as usize);
        });
        if round % 20 == 0 {
            line.settle(&cells, 1 + next(100) as usize);
            line.assert_all(&cells);
        }
    }
}

#[test]
fn a_small_change_is_few_bytes() {
    let (mut cells, mut line) = (Cells::new(), Line::new(25));
    cells.text(0, 10, 80, Style::Plain, "the quick brown fox jumps over the lazy dog");
    line.settle(&cells, 64);
    let mut cost = |x: usize, text: &str, style: Style| {
        cells.text(x, 10, 80, style, text);
        let cost = line.settle(&cells, 64);
        line.assert_all(&cells);
        cost
    };
    assert!(cost(4, "Q", Style::Plain) <= "\x1b[11;5H\x1b[37;40mQ".len());
    assert_eq!(cost(5, "U", Style::Plain), 1, "the cursor is there already");
    assert_eq!(cost(8, "K", Style::Plain), 3, "two letters again are shorter than a command");
    assert_eq!(cost(20, "J", Style::Plain), "\x1b[11CJ".len());
    assert_eq!(cost(21, "U", Style::Bad), "\x1b[91;40mU".len());
    assert_eq!(cost(22, " ", Style::Plain), 1, "a blank has no colour");
}

#[test]
fn the_whole_screen_is_sent_in_bounded_steps() {
    let (mut scene, mut line) = (Scene::new(), Line::new(25));
    scene.minute();
    let bytes = line.settle(scene.draw(), 16);
    // 4,000 bytes are a third of a second at 115,200 bit/s.
    assert!((2000..4000).contains(&bytes), "{bytes} bytes");
}

#[test]
fn what_changes_all_the_time_does_not_hide_the_rest() {
    let (mut cells, mut line) = (Cells::new(), Line::new(25));
    line.settle(&cells, 64);
    cells.text(0, 20, 80, Style::Good, "here");
    for step in 0..200 {
        // More changes in each step than a step can send.
        (0..10).for_each(|y| {
            cells.text(0, y, 80, Style::Plain, ["#", "+"][step % 2].repeat(80));
        });
        line.step(&cells, 16);
    }
    assert_eq!(line.emulator.screen().contents_between(20, 0, 20, 4), "here");
}

#[test]
fn a_terminal_of_24_rows_does_without_the_rule() {
    let (mut scene, mut line) = (Scene::new(), Line::new(24));
    scene.minute();
    let cells = scene.draw().clone();
    line.settle(&cells, 64);
    (0..23).for_each(|y| line.assert_row(y, &cells, y.into()));
    line.assert_row(23, &cells, 24);
}

#[test]
fn a_small_terminal_shows_what_fits() {
    let mut scene = Scene::new();
    let size = |count: u16| std::num::NonZero::new(count).unwrap();
    let mut line = Line::new(24);
    line.emulator = vt100::Parser::new(size(10), size(40), 0);
    line.terminal.set_size(10, 40);
    let cells = scene.draw().clone();
    line.settle(&cells, 64);
    for y in 0..10 {
        let shown = line.emulator.screen().contents_between(y, 0, y, 40);
        let whole: String = cells.row_text(y.into()).chars().take(40).collect();
        assert_eq!(shown.trim_end(), whole.trim_end(), "row {y}");
    }
}

#[test]
fn the_terminal_is_asked_for_its_size_once() {
    let (mut scene, mut line) = (Scene::new(), Line::new(24));
    let cells = scene.draw().clone();
    let mut sent = Vec::new();
    while let Some(bytes) = Some(line.step(&cells, 64)).filter(|bytes| !bytes.is_empty()) {
        sent.extend(bytes);
    }
    let questions = |sent: &[u8]| sent.windows(4).filter(|bytes| *bytes == b"\x1b[6n").count();
    assert_eq!(questions(&sent), 1);
    let (mut keys, now) = (SerialKeys::default(), ringway_sansio::Instant::from_secs(1));
    let answers: Vec<Typed> = b"\x1b[50;132R".iter().filter_map(|byte| keys.byte(now, *byte)).collect();
    let [Typed::Size { rows, columns }] = answers[..] else { panic!("{answers:?}") };
    line.terminal.set_size(rows, columns);
    sent.clear();
    while let Some(bytes) = Some(line.step(&cells, 64)).filter(|bytes| !bytes.is_empty()) {
        sent.extend(bytes);
    }
    assert_eq!(questions(&sent), 0, "or it would never end");
    assert!(sent.len() > 1000, "all is drawn again");
    line.terminal.set_size(rows, columns);
    assert_eq!(line.settle(&cells, 64), 0);
}

#[test]
fn all_is_drawn_again_on_request() {
    let (mut scene, mut line) = (Scene::new(), Line::new(25));
    let cells = scene.draw().clone();
    line.settle(&cells, 64);
    line.emulator.process(b"\x1b[2J\x1b[5;5Hnoise on the line\x1b[31m");
    line.terminal.redraw();
    line.settle(&cells, 64);
    line.assert_all(&cells);
}

#[test]
fn no_room_is_no_step() {
    let (mut line, cells) = (Line::new(25), Cells::new());
    assert!(line.step(&cells, 0).is_empty());
    assert_eq!(line.step(&cells, 1), b"\x1b");
}
