//! Pictures of a screen as text: its characters, then how each of them looks.

use crate::{Cell, Cells, Style};
use alloc::format;
use alloc::string::String;
use std::fmt::Write;
use std::path::Path;

/// Compares a screen with the picture of this name, or draws it anew.
pub(crate) fn check(name: &str, cells: &Cells) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests/pictures").join(format!("{name}.txt"));
    let drawn = text(cells);
    if std::env::var("RINGWAY_PICTURES").is_ok_and(|value| value == "write") {
        std::fs::write(&file, &drawn).unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        kept == drawn,
        "{} is old: RINGWAY_PICTURES=write draws it anew. Now it is:\n{drawn}",
        file.display()
    );
}

/// Both parts have a border, so that no line ends in blanks.
pub(crate) fn text(cells: &Cells) -> String {
    let mut text = String::new();
    for y in 0..Cells::ROWS {
        writeln!(text, "|{}|", cells.row_text(y)).unwrap();
    }
    text.push('\n');
    for row in cells.all().chunks(Cells::COLUMNS) {
        writeln!(text, "|{}|", row.iter().map(look).collect::<String>()).unwrap();
    }
    text
}

/// A letter for how a cell looks; a blank one has only a background.
fn look(cell: &Cell) -> char {
    let looks = [
        (Style::Plain, '.'),
        (Style::Strong, 's'),
        (Style::Quiet, 'q'),
        (Style::Heading, 'h'),
        (Style::Title, 'T'),
        (Style::Bar, 'B'),
        (Style::Key, 'K'),
        (Style::Good, 'g'),
        (Style::Warning, 'w'),
        (Style::Bad, 'b'),
        (Style::Alarm, 'A'),
    ];
    let is_on_black = cell.style().attribute() < 0x10;
    match looks.into_iter().find(|(style, _)| *style == cell.style()) {
        _ if cell.character() == ' ' && is_on_black => ' ',
        Some((_, letter)) => letter,
        None => panic!("a look without a letter: {cell:?}"),
    }
}
