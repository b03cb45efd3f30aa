//! The table of keys in the documents: the only list of keys with their defaults and meanings for people.

/// Row of the table.
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

/// Rows of the table, in its order.
pub(crate) fn rows() -> impl Iterator<Item = Row> {
    let page = include_str!("../../../../docs/reference/configuration.md");
    let table = page.split_once(HEAD).map_or("", |(_, table)| table);
    table.lines().take_while(|line| line.starts_with('|')).filter_map(|line| {
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

/// Head of the table.
const HEAD: &str = "| Key | Default | Range | Meaning |\n|---|---|---|---|\n";
