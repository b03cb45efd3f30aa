//! `ringway config example`: a configuration file with every key, its default and its meaning, from the tables in the
//! documents.

use super::Config;

/// Row of a table of keys in the documents, the only list of keys with their defaults and meanings for people.
pub(crate) struct Row {
    /// Keys, as in `auth.realm`; more than one share the row.
    pub(crate) keys: Vec<&'static str>,
    /// Default, in the words of the page.
    pub(crate) default: &'static str,
    /// Range, in the words of the page.
    pub(crate) range: &'static str,
    /// Meaning, in Markdown.
    pub(crate) meaning: &'static str,
}

/// Pages with a table of keys; all keys of a section are on one page.
pub(crate) const PAGES: [&str; 2] = [
    include_str!("../../../../docs/reference/configuration.md"),
    include_str!("../../../../docs/reference/configuration-trunks.md"),
];

/// Rows of the tables, in their order.
pub(crate) fn rows() -> impl Iterator<Item = Row> {
    let tables = PAGES.into_iter().map(|page| page.split_once(HEAD).map_or("", |(_, table)| table));
    let lines = tables.flat_map(|table| table.lines().take_while(|line| line.starts_with('|')));
    lines.filter_map(|line| {
        let mut cells = line.trim_matches('|').splitn(4, '|').map(str::trim);
        let keys = cells.next()?.split('`').skip(1).step_by(2).collect();
        Some(Row { keys, default: cells.next()?, range: cells.next()?, meaning: cells.next()? })
    })
}

impl Row {
    /// The default as a value of TOML; `None` if it is no single value.
    pub(crate) fn value(&self) -> Option<String> {
        let first = self.default.split(';').next()?.split(", none").next()?;
        let number = first.replace(',', "");
        match first.strip_prefix('`').and_then(|rest| rest.strip_suffix('`')) {
            Some(list) if list.starts_with('[') => Some(list.to_owned()),
            Some(word) => Some(format!("{word:?}")),
            None if first == "true" || first == "false" || number.parse::<u64>().is_ok() => Some(number),
            None => None,
        }
    }
}

/// The text of the file. Every key is a comment, so that it has the defaults until a line is changed.
pub(crate) fn text() -> String {
    let mut text = String::from(
        "# Configuration of ringway: every key with its default. Take the # before a key and before its section away; ringway check says\n\
         # what is wrong. A key without a value has no default. Pages: docs/README.md\n",
    );
    let (top, of_sections): (Vec<Row>, Vec<Row>) = rows().partition(|row| section_of(row).is_none());
    for row in top.iter().filter(|row| !is_list(row)) {
        add(&mut text, row, "");
    }
    let mut open = "";
    // Keys of a section come before its lists, which would take them.
    let mut sorted: Vec<(usize, &Row)> = Vec::new();
    for row in &of_sections {
        let section = section_of(row).unwrap_or_default();
        let number = sorted.iter().find(|(_, of)| section_of(of) == Some(section)).map(|(number, _)| *number);
        sorted.push((number.unwrap_or(sorted.len()), row));
    }
    sorted.sort_by_key(|(number, row)| (*number, is_list(row)));
    for (_, row) in sorted {
        let section = section_of(row).unwrap_or_default();
        if section != open {
            open = section;
            let list = top.iter().find(|row| row.keys.first() == Some(&section) && is_list(row));
            match list {
                Some(list) => {
                    text.push('\n');
                    add_comment(&mut text, list);
                    text.push_str(&format!("#[[{section}]]\n"));
                }
                // One that needs keys is a comment too.
                None if Config::parse(&format!("[{section}]\n"), None).is_err() => {
                    text.push_str(&format!("\n#[{section}]\n"));
                }
                None => text.push_str(&format!("\n[{section}]\n")),
            }
        }
        if is_list(row) {
            text.push('\n');
            add_comment(&mut text, row);
            for key in &row.keys {
                text.push_str(&format!("#[[{key}]]\n"));
            }
            continue;
        }
        add(&mut text, row, section);
    }
    text
}

/// Section of the keys of a row; `None`: they are at the top of the file.
fn section_of(row: &Row) -> Option<&'static str> {
    row.keys.first().and_then(|key| key.rsplit_once('.')).map(|(section, _)| section)
}

/// True for a row of sections `[[name]]`.
fn is_list(row: &Row) -> bool {
    row.meaning.starts_with("sections `[[")
}

fn add(text: &mut String, row: &Row, section: &str) {
    text.push('\n');
    add_comment(text, row);
    let value = row.value();
    for key in &row.keys {
        let name = key.strip_prefix(section).map_or(*key, |rest| rest.trim_start_matches('.'));
        match &value {
            Some(value) if row.keys.len() == 1 => text.push_str(&format!("#{name} = {value}\n")),
            Some(_) | None => text.push_str(&format!("#{name} =\n")),
        }
    }
}

/// Appends meaning, default and range as a comment.
fn add_comment(text: &mut String, row: &Row) {
    let mut line = without_links(row.meaning);
    if row.value().is_none() && row.default != "none" && !row.default.is_empty() {
        line.push_str(&format!(" (default: {})", row.default.replace('`', "")));
    }
    if !row.range.is_empty() {
        line.push_str(&format!(" ({})", row.range.replace('`', "")));
    }
    let mut width = 0;
    text.push('#');
    for word in line.split(' ') {
        if width + word.chars().count() > LINE_CHARS {
            text.push_str("\n#");
            width = 0;
        }
        text.push(' ');
        text.push_str(word);
        width += word.chars().count() + 1;
    }
    text.push('\n');
}

/// Markdown without the targets of links and without code marks; references to other pages go.
fn without_links(markdown: &str) -> String {
    let mut text = String::new();
    let mut rest = markdown;
    while let Some((before, after)) = rest.split_once("](") {
        let (before, label) = before.rsplit_once('[').unwrap_or((before, ""));
        text.push_str(before);
        text.push_str(label);
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    text.push_str(rest);
    text.replace(" (more)", "").replace(" (guide)", "").replace('`', "")
}

/// Head of each table.
const HEAD: &str = "| Key | Default | Range | Meaning |\n|---|---|---|---|\n";
/// Width of a comment in characters.
const LINE_CHARS: usize = 110;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_is_valid_and_has_every_key_and_the_defaults() {
        let text = text();
        let parsed = Config::parse(&text, None).unwrap();
        let default = Config::parse("", None).unwrap();
        assert_eq!(parsed.keys, default.keys);
        for page in PAGES {
            assert!(page.contains(HEAD), "a page has no table of keys");
        }
        for row in rows() {
            for key in row.keys {
                let name = key.rsplit('.').next().unwrap();
                let is_there = [format!("#{name} ="), format!("#[[{key}]]")]
                    .iter()
                    .any(|line| text.lines().any(|of| of.starts_with(line.as_str())));
                assert!(is_there, "{key}");
            }
        }
        let mut sections: Vec<&str> =
            text.lines().filter(|line| line.starts_with('[') || line.starts_with("#[")).collect();
        assert!(sections.contains(&"#[[trunk]]") && sections.contains(&"[emergency]"), "{sections:?}");
        sections.sort_unstable();
        let twice = sections.windows(2).find(|pair| pair[0] == pair[1]);
        assert_eq!(twice, None, "the keys of a section are not in one piece");
        assert!(text.contains("\n[auth]\n") && text.contains("#realm =\n"), "{text}");
        assert!(!text.contains("](") && !text.contains('`'), "Markdown is left");
    }

    #[test]
    fn a_line_without_its_mark_is_a_key_in_its_section() {
        let text = text();
        for line in ["#workers = 0", "#level = \"info\""] {
            let changed = text.replace(&format!("\n{line}\n"), &format!("\n{}\n", &line[1..]));
            assert_ne!(changed, text, "{line}");
            assert_eq!(Config::parse(&changed, None).unwrap().keys, Config::parse("", None).unwrap().keys);
        }
        let wrong = text.replace("\n#level = \"info\"", "\nlevel = \"loud\"");
        assert!(Config::parse(&wrong, None).unwrap_err()[0].to_string().contains("[log] level"));
    }
}
