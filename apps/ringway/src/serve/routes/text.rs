//! The sections of routing as text: found in a configuration file, shown without secrets, and replaced.
//!
//! A section is its header, its keys, and the comments that touch them. Everything else of the file keeps every byte.

use ringway_settings::is_secret;
use std::ops::Range;
use toml_edit::{Document, Item, Table, Value};

/// Sections of routing.
const NAMES: [&str; 3] = ["trunk", "route", "destination"];

/// A configuration file with the position of its sections of routing.
pub(super) struct RoutesText<'t> {
    file: &'t str,
    /// Byte ranges of sections that follow each other, in order.
    runs: Vec<Range<usize>>,
}

/// New text of a configuration file.
#[derive(Debug)]
pub(super) struct NewFile {
    pub(super) text: String,
    /// Line of the file at which the sections begin, from 1.
    pub(super) first_line: usize,
    /// Number of lines of the sections.
    pub(super) lines: usize,
    /// Number of empty lines before the sections in the text that was sent.
    pub(super) skipped: usize,
}

impl NewFile {
    /// Line of the text that was sent, for one of the file; `None`: it is not of the sections.
    pub(super) fn line_sent(&self, line: usize) -> Option<usize> {
        let line = (line + 1).checked_sub(self.first_line)?;
        (1..=self.lines).contains(&line).then_some(line + self.skipped)
    }
}

/// Fault in new text, with its line in the file and in the text that was sent, from 1.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EditFault {
    pub(super) in_file: TextFault,
    pub(super) line: usize,
}

/// Fault in a text, with its line from 1.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TextFault {
    pub(super) line: usize,
    pub(super) message: String,
}

impl<'t> RoutesText<'t> {
    /// Finds the sections in the text of a file.
    ///
    /// # Errors
    /// The file is not TOML, or has the sections as values of keys.
    pub(super) fn find(file: &'t str) -> Result<Self, TextFault> {
        let layout = Layout::of(file)?;
        if let Some((key, at)) = layout.inline {
            let message = format!(
                "`{key}` is a value here; write it as sections [[{key}]] to edit it in the dashboard"
            );
            return Err(fault(file, at, message));
        }
        let mut runs: Vec<Range<usize>> = Vec::new();
        let mut is_apart = true;
        for section in layout.sections() {
            if section.is_own {
                match runs.last_mut().filter(|_| !is_apart) {
                    Some(run) => run.end = section.range.end,
                    None => runs.push(section.range),
                }
            }
            is_apart = !section.is_own;
        }
        Ok(Self { file, runs })
    }

    /// The sections, with a mask for each secret value and with line feeds as line ends.
    ///
    /// # Errors
    /// The sections alone are not TOML.
    pub(super) fn shown(&self) -> Result<String, TextFault> {
        let text = self.text();
        let mut shown = String::with_capacity(text.len());
        let mut end = 0;
        for (number, secret) in Layout::of(&text)?.secrets.into_iter().enumerate() {
            shown.push_str(text.get(end..secret.start).unwrap_or_default());
            shown.push_str(&mask(number));
            end = secret.end;
        }
        shown.push_str(text.get(end..).unwrap_or_default());
        Ok(shown)
    }

    /// The file with `new` in place of its sections, where the first of them was, else at the end. Masks in `new` become the values that
    /// [`Self::shown`] hid.
    ///
    /// # Errors
    /// `new` is not TOML, has anything but sections of routing, or a mask without a value.
    pub(super) fn replaced(&self, new: &str) -> Result<NewFile, EditFault> {
        let sent = new.replace("\r\n", "\n");
        let new = sent.trim_start_matches('\n');
        let skipped = sent.len() - new.len();
        let new = new.trim_end();
        let start = self.runs.first().map_or(self.file.len(), |run| run.start);
        let mut before = self.file.get(..start).unwrap_or_default().to_owned();
        let line_end = if self.file.split_inclusive('\n').next().is_some_and(|line| line.ends_with("\r\n")) {
            "\r\n"
        } else {
            "\n"
        };
        if self.runs.is_empty() && !new.is_empty() && !before.is_empty() {
            before.push_str(if before.ends_with('\n') { "" } else { line_end });
            before.push_str(if without_blank_line(&before).is_some() { "" } else { line_end });
        }
        let first_line = line_of(&before, before.len());
        let edit_fault = |fault: TextFault| EditFault {
            line: fault.line + skipped,
            in_file: TextFault { line: fault.line + first_line - 1, ..fault },
        };
        let restored = self.restored(new).map_err(edit_fault)?;
        let lines = restored.lines().count();
        let mut text = before;
        if self.text().trim_end() == restored {
            // The order of a file whose sections are apart stays.
            self.file.clone_into(&mut text);
            return Ok(NewFile { text, first_line, lines, skipped });
        }
        for line in restored.lines() {
            text.push_str(line);
            text.push_str(line_end);
        }
        let mut end = start;
        for run in &self.runs {
            text.push_str(self.file.get(end..run.start).unwrap_or_default());
            let is_kept = run.start == start && !restored.is_empty();
            end = run.end;
            if !is_kept && starts_blank(self.file.get(end..).unwrap_or_default()) {
                // The empty line before a removed section goes with it.
                text.truncate(without_blank_line(&text).map_or(text.len(), str::len));
            }
        }
        text.push_str(self.file.get(end..).unwrap_or_default());
        Ok(NewFile { text, first_line, lines, skipped })
    }

    /// `new` with the secrets of the file in place of their masks.
    fn restored(&self, new: &str) -> Result<String, TextFault> {
        let layout = Layout::of(new)?;
        layout.check_is_routing(new)?;
        let text = self.text();
        let secrets = Layout::of(&text)?.secrets;
        let mut restored = String::with_capacity(new.len());
        let mut end = 0;
        for range in layout.secrets {
            let value = new.get(range.clone()).unwrap_or_default();
            let Some(number) = masked(value) else { continue };
            let Some(secret) = secrets.get(number).and_then(|secret| text.get(secret.clone())) else {
                let message = format!("{value} names no secret of the file; write the value itself");
                return Err(fault(new, range.start, message));
            };
            restored.push_str(new.get(end..range.start).unwrap_or_default());
            restored.push_str(secret);
            end = range.end;
        }
        restored.push_str(new.get(end..).unwrap_or_default());
        Ok(restored)
    }

    /// The sections, with line feeds as line ends.
    fn text(&self) -> String {
        let mut text = String::new();
        for run in self.runs.iter().filter_map(|run| self.file.get(run.clone())) {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&run.replace("\r\n", "\n"));
            if !text.ends_with('\n') {
                text.push('\n');
            }
        }
        text
    }
}

/// Values of the secret keys in the sections of a valid file, for what must not be in a message.
pub(super) fn secrets(file: &str) -> Vec<String> {
    let Ok(layout) = Layout::of(file) else { return Vec::new() };
    let values = layout.secrets.iter().filter_map(|range| file.get(range.clone()));
    values.map(|value| value.trim_matches(['"', '\'']).to_owned()).filter(|value| !value.is_empty()).collect()
}

/// Lines, values and secrets of a TOML text.
struct Layout {
    lines: Vec<Line>,
    /// Byte ranges of values whose keys say that they are secret, in comments too, in order.
    secrets: Vec<Range<usize>>,
    /// Position of the first header; the end without one.
    first_header: usize,
    /// A section of routing that is written as a key with a value, and its position.
    inline: Option<(&'static str, usize)>,
}

struct Line {
    range: Range<usize>,
    kind: LineKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineKind {
    Blank,
    Comment,
    /// Header of a section of routing.
    OwnHeader,
    /// Header of another section.
    OtherHeader,
    /// Key with the start of its value.
    Key,
    /// Further line of a value.
    Inside,
}

/// A section with its comments.
struct SectionRange {
    range: Range<usize>,
    is_own: bool,
}

impl Layout {
    fn of(text: &str) -> Result<Self, TextFault> {
        let document = Document::parse(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            fault(text, at, format!("not TOML: {}; correct the line", one_line(error.message())))
        })?;
        let (mut values, mut secrets) = (Vec::new(), Vec::new());
        note_table(document.as_table(), Secrecy::Open, &mut values, &mut secrets);
        values.sort_by_key(|range| range.start);
        let mut lines = Vec::new();
        let (mut start, mut next) = (0, 0);
        for line in text.split_inclusive('\n') {
            let range = start..start + line.len();
            start = range.end;
            while values.get(next).is_some_and(|value| value.end <= range.start) {
                next += 1;
            }
            let is_inside = values.get(next).is_some_and(|value| value.start < range.start);
            let kind = if is_inside { LineKind::Inside } else { kind_of(line) };
            let mut from = range.start;
            while let Some(value) = values.get(next).filter(|value| value.start < range.end) {
                from = value.end;
                if value.end > range.end {
                    break;
                }
                next += 1;
            }
            secrets.extend(secret_of_comment(text, from..range.end));
            lines.push(Line { range, kind });
        }
        secrets.sort_by_key(|range| range.start);
        let is_header = |line: &&Line| matches!(line.kind, LineKind::OwnHeader | LineKind::OtherHeader);
        let first_header = lines.iter().find(is_header).map_or(text.len(), |line| line.range.start);
        let root = document.as_table();
        let inline = NAMES.into_iter().find_map(|name| {
            let (key, item) = root.get_key_value(name)?;
            let is_inline = item.is_value() || item.as_table().is_some_and(Table::is_dotted);
            is_inline.then(|| (name, key.span().map_or(0, |span| span.start)))
        });
        Ok(Self { lines, secrets, first_header, inline })
    }

    /// All sections, in order.
    fn sections(&self) -> Vec<SectionRange> {
        let headers: Vec<usize> = (0..self.lines.len()).filter(|at| self.is_header(*at)).collect();
        let mut sections = Vec::with_capacity(headers.len());
        for (number, &header) in headers.iter().enumerate() {
            let next = headers.get(number + 1).map_or(self.lines.len(), |next| self.comments_before(*next));
            let is_kind = |at: usize, kinds: &[LineKind]| {
                self.lines.get(at).is_some_and(|line| kinds.contains(&line.kind))
            };
            let mut last = (header..next)
                .rev()
                .find(|at| is_kind(*at, &[LineKind::Key, LineKind::Inside]))
                .unwrap_or(header);
            while last + 1 < next && is_kind(last + 1, &[LineKind::Comment]) {
                last += 1;
            }
            let start = self.lines.get(self.comments_before(header)).map_or(0, |line| line.range.start);
            let end = self.lines.get(last).map_or(0, |line| line.range.end);
            let is_own = is_kind(header, &[LineKind::OwnHeader]);
            sections.push(SectionRange { range: start..end, is_own });
        }
        sections
    }

    /// The first of the comment lines that touch this one.
    fn comments_before(&self, at: usize) -> usize {
        let lines = self.lines.get(..at).unwrap_or_default();
        at - lines.iter().rev().take_while(|line| line.kind == LineKind::Comment).count()
    }

    fn is_header(&self, at: usize) -> bool {
        let kind = self.lines.get(at).map(|line| line.kind);
        matches!(kind, Some(LineKind::OwnHeader | LineKind::OtherHeader))
    }

    /// Checks that the text has sections of routing only.
    fn check_is_routing(&self, text: &str) -> Result<(), TextFault> {
        let is_foreign = |line: &&Line| match line.kind {
            LineKind::Blank | LineKind::Comment | LineKind::OwnHeader => false,
            LineKind::OtherHeader => true,
            LineKind::Key | LineKind::Inside => line.range.start < self.first_header,
        };
        let Some(line) = self.lines.iter().find(is_foreign) else { return Ok(()) };
        let written: String =
            text.get(line.range.clone()).unwrap_or_default().trim().chars().take(SHOWN_CHARS_MAX).collect();
        let message = format!(
            "{written:?} is not in a section [[trunk]], [[route]] or [[destination]]; edit the file itself for other sections"
        );
        Err(fault(text, line.range.start, message))
    }
}

/// Secrecy of the values in a table, by the names of the keys above them.
#[derive(Clone, Copy)]
enum Secrecy {
    Open,
    Secret,
}

impl Secrecy {
    fn of(self, key: &str) -> Self {
        if is_secret(key) { Self::Secret } else { self }
    }
}

/// Notes the byte ranges of all values of a table and its subtables, and of the secret ones.
fn note_table(
    table: &Table,
    secrecy: Secrecy,
    values: &mut Vec<Range<usize>>,
    secrets: &mut Vec<Range<usize>>,
) {
    for (key, item) in table {
        let secrecy = secrecy.of(key);
        match item {
            Item::None => {}
            Item::Value(value) => {
                values.extend(value.span());
                note_secrets(value, secrecy, secrets);
            }
            Item::Table(table) => note_table(table, secrecy, values, secrets),
            Item::ArrayOfTables(tables) => {
                tables.iter().for_each(|table| note_table(table, secrecy, values, secrets));
            }
        }
    }
}

fn note_secrets(value: &Value, secrecy: Secrecy, secrets: &mut Vec<Range<usize>>) {
    match (secrecy, value) {
        (Secrecy::Secret, value) => secrets.extend(value.span()),
        (Secrecy::Open, Value::InlineTable(table)) => {
            table.iter().for_each(|(key, value)| note_secrets(value, secrecy.of(key), secrets));
        }
        (Secrecy::Open, Value::Array(items)) => {
            items.iter().for_each(|item| note_secrets(item, secrecy, secrets));
        }
        (
            Secrecy::Open,
            Value::String(_) | Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_),
        ) => {}
    }
}

/// Kind of a line that is not inside a value.
fn kind_of(line: &str) -> LineKind {
    match line.trim_start().bytes().next() {
        None => LineKind::Blank,
        Some(b'#') => LineKind::Comment,
        Some(b'[') => {
            let header = Document::parse(line);
            let name = header.as_ref().ok().and_then(|header| header.as_table().iter().next());
            match name.is_some_and(|(name, _)| NAMES.contains(&name)) {
                true => LineKind::OwnHeader,
                false => LineKind::OtherHeader,
            }
        }
        Some(_) => LineKind::Key,
    }
}

/// Value of a key in a comment, as in `# password_file = "x"`, if the comment names a secret.
fn secret_of_comment(text: &str, range: Range<usize>) -> Option<Range<usize>> {
    let part = text.get(range.clone())?;
    let comment = part.find('#')?;
    let (before, after) = part.get(comment..)?.split_once('=')?;
    let value = after.trim();
    if value.is_empty() || !is_secret(&before.to_ascii_lowercase().replace('.', " ")) {
        return None;
    }
    let start = range.start + comment + before.len() + 1 + (after.len() - after.trim_start().len());
    Some(start..start + value.len())
}

/// Mask of the secret with this number.
fn mask(number: usize) -> String {
    format!("\"{MASK}{})\"", number + 1)
}

/// Number of the secret of a mask.
fn masked(value: &str) -> Option<usize> {
    let number = value.trim_matches(['"', '\'']).strip_prefix(MASK)?.strip_suffix(')')?;
    number.parse::<usize>().ok()?.checked_sub(1)
}

fn fault(text: &str, at: usize, message: String) -> TextFault {
    TextFault { line: line_of(text, at), message }
}

/// Line of a byte, from 1.
fn line_of(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count()
}

/// The text without the empty line at its end; `None`: it has none.
fn without_blank_line(text: &str) -> Option<&str> {
    let rest = text.strip_suffix('\n')?;
    let rest = rest.strip_suffix('\r').unwrap_or(rest);
    (rest.is_empty() || rest.ends_with('\n')).then_some(rest)
}

/// True if a text is empty or begins with an empty line.
fn starts_blank(text: &str) -> bool {
    text.is_empty() || text.starts_with('\n') || text.starts_with("\r\n")
}

fn one_line(message: &str) -> String {
    message.replace(char::is_control, " ")
}

const MASK: &str = "(secret ";
/// Characters of a line in a message.
const SHOWN_CHARS_MAX: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"# Ours.
domains = ["example.org"]   # [[route]]

# The carrier.
[[trunk]] # first
name = "a"
uri = "sip:a.example"
username = "u"
password_file = "/etc/a.secret"  # secret = old
callers = [
  "[[route]]:1", # no header
]
# privacy = true
# Password = "x"

# About admin.
[admin]
token = "t0p"

[[route]]
prefix = "0"
to = ["a"]
"#;

    fn shown(file: &str) -> String {
        RoutesText::find(file).unwrap().shown().unwrap()
    }

    fn replaced(file: &str, new: &str) -> NewFile {
        RoutesText::find(file).unwrap().replaced(new).unwrap()
    }

    #[test]
    fn the_sections_are_shown_with_their_comments_and_without_secrets() {
        let text = shown(FILE);
        assert!(text.starts_with("# The carrier.\n[[trunk]] # first\n"), "{text}");
        let end = "# Password = \"(secret 3)\"\n\n[[route]]\nprefix = \"0\"\nto = [\"a\"]\n";
        assert!(text.ends_with(end), "{text}");
        assert!(text.contains("password_file = \"(secret 1)\"  # secret = \"(secret 2)\"\n"), "{text}");
        for hidden in ["/etc", "\"x\"", "t0p", "domains", "About", "old"] {
            assert!(!text.contains(hidden), "{hidden} in {text}");
        }
    }

    #[test]
    fn what_is_shown_puts_the_same_file_back() {
        let others = [FILE.replace('\n', "\r\n"), FILE.trim_end().to_owned(), "workers = 1".to_owned()];
        for file in others.into_iter().chain([FILE.to_owned(), String::new()]) {
            assert_eq!(replaced(&file, &shown(&file)).text, file);
        }
    }

    #[test]
    fn everything_else_keeps_its_bytes() {
        let new = "[[destination]]\nprefix = \"00\"\nallow = false\n\n# moved\n[[trunk]]\npassword_file = \"(secret 1)\"\nname = \"b\"";
        let file = replaced(FILE, new);
        let expected = "# Ours.\ndomains = [\"example.org\"]   # [[route]]\n\n[[destination]]\nprefix = \"00\"\nallow = false\n\n\
                        # moved\n[[trunk]]\npassword_file = \"/etc/a.secret\"\nname = \"b\"\n\n# About admin.\n[admin]\ntoken = \"t0p\"\n";
        assert_eq!((file.text.as_str(), file.first_line, file.lines), (expected, 4, 8));
        let windows = replaced(&FILE.replace('\n', "\r\n"), new);
        assert_eq!(windows.text, expected.replace('\n', "\r\n"));
        let added = replaced("workers = 1", "[[route]]\nprefix = \"0\"\n\n\n");
        assert_eq!(
            (added.text.as_str(), added.first_line),
            ("workers = 1\n\n[[route]]\nprefix = \"0\"\n", 3)
        );
        let emptied = replaced(FILE, " \n");
        assert!(!emptied.text.contains("[[trunk]]") && emptied.text.contains("token = \"t0p\""));
    }

    #[test]
    fn a_route_that_comes_and_goes_leaves_no_empty_lines() {
        for file in ["workers = 1\n", "workers = 1\r\n", "workers = 1\n\n[auth]\nenabled = false\n", ""] {
            let mut text = file.to_owned();
            for _ in 0..3 {
                text = replaced(&text, "[[route]]\nprefix = \"0\"\n").text;
                assert!(!text.contains("\n\n\n") && !text.ends_with("\n\n"), "{text:?}");
                text = replaced(&text, "").text;
                assert_eq!(text, file);
            }
        }
        let between = replaced("a = 1\n\n[[route]]\nprefix = \"0\"\n\n[admin]\n", "");
        assert_eq!(between.text, "a = 1\n\n[admin]\n");
    }

    #[test]
    fn other_text_is_refused_with_its_line_in_the_file() {
        let found = RoutesText::find(FILE).unwrap();
        for (text, line, part) in [
            ("[[route]]\nprefix = \"0\"\n[admin]\ntoken = \"\"", 6, "[admin]"),
            ("workers = 1\n[[route]]", 4, "workers"),
            ("route = []", 4, "route"),
            ("[[trunk]]\nname = \"a\"\nuri = \n", 6, "not TOML"),
            ("[[trunk]]\npassword_file = \"(secret 9)\"", 5, "(secret 9)"),
            ("[[trunk]]\npassword_file = \"(secret 0)\"x", 5, "not TOML"),
        ] {
            let fault = found.replaced(&format!("\n{text}")).unwrap_err();
            assert_eq!((fault.in_file.line, fault.line), (line, line - 2), "{text}: {fault:?}");
            assert!(fault.in_file.message.contains(part), "{text}: {fault:?}");
        }
        let new = found.replaced("\n\n[[route]]\nprefix = \"0\"\n").unwrap();
        assert_eq!([3, 4, 5, 6].map(|line| new.line_sent(line)), [None, Some(3), Some(4), None]);
        let inline = RoutesText::find("workers = 1\nroute = [{ prefix = \"0\" }]").err().unwrap();
        assert!(inline.line == 2 && inline.message.contains("[[route]]"), "{inline:?}");
        assert_eq!(RoutesText::find("a = 1\nb =").err().unwrap().line, 2);
    }

    /// A mask elsewhere than in a secret key is text: it must not show the secret.
    #[test]
    fn a_mask_shows_no_secret_in_another_key() {
        let new = "[[trunk]]\nname = \"(secret 1)\" # (secret 1)\ncallers = [\"(secret 1)\"]";
        let file = replaced(FILE, new);
        assert!(!file.text.contains("/etc/a.secret"), "{}", file.text);
        let hidden = secrets(FILE);
        assert!(["t0p", "/etc/a.secret"].iter().all(|secret| hidden.iter().any(|other| other == secret)));
    }
}
