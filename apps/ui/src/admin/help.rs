//! Help page: keys and terms.

use crate::cells::Cells;
use crate::style::Style;
use crate::window::{BODY_ROW, BODY_ROWS};

pub(super) fn draw(cells: &mut Cells) {
    cells.frame(0, BODY_ROW, Cells::COLUMNS, BODY_ROWS, Style::Plain, "Help");
    for (number, (key, does)) in KEYS.into_iter().enumerate() {
        let y = BODY_ROW + 2 + number;
        cells.text(KEY_X, y, TEXT_X - KEY_X, Style::Strong, key);
        cells.text(TEXT_X, y, TEXT_COLUMNS, Style::Plain, does);
    }
    for (number, (word, means)) in WORDS.into_iter().enumerate() {
        let y = BODY_ROW + 3 + KEYS.len() + number;
        cells.text(KEY_X, y, TEXT_X - KEY_X, Style::Heading, word);
        cells.text(TEXT_X, y, TEXT_COLUMNS, Style::Plain, means);
    }
}

const KEYS: [(&str, &str); 9] = [
    ("1 2 3 4", "the pages; Tab is the next one"),
    ("arrows PgUp PgDn", "move in lists, Home and End to their ends"),
    ("/ or s", "users whose names begin so; Esc shows all again"),
    ("l", "on page 2: changes as they happen, and back"),
    ("p", "there: stop so that they can be read, and go on"),
    ("Ctrl-L", "draw everything again; query the terminal's size"),
    ("q", "on a serial line: the log, until any key"),
    ("? or F1", "this help; any key leaves it"),
    ("", "Nothing that a key does changes what the server does."),
];

const WORDS: [(&str, &str); 7] = [
    ("now, most", "the last second, and the highest of the last minute"),
    ("4xx sent", "errors of callers; asking for a password (401, 407)"),
    ("", "is one of them and is nothing bad"),
    ("Calls in set-up", "forwarded and not answered yet; a proxy does not"),
    ("", "know how long a call lasts"),
    ("Longest wait", "of a frame until its turn, in the last second"),
    ("reached", "how often the limit refused or dropped something"),
];

const KEY_X: usize = 5;
const TEXT_X: usize = 23;
const TEXT_COLUMNS: usize = Cells::COLUMNS - TEXT_X - 4;
