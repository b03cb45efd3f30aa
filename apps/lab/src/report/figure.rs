//! A figure: charts with their legend, the command that makes them, and the table of the same numbers.

use super::data::{Entry, Results};
use super::html::{Markup, Table, Text, short};
use super::svg::shape;

/// Charts of one question, a panel for each variant.
#[derive(Debug, Default)]
pub(super) struct Figure {
    pub(super) title: &'static str,
    /// Explanation of the charts.
    pub(super) note: String,
    /// Legend of parts in place of the targets.
    pub(super) parts: &'static [&'static str],
    /// Legend of the parts of stacked bars in place of the targets: number of the colour, name.
    pub(super) stack: Vec<(usize, &'static str)>,
    /// The charts have no colours of targets.
    pub(super) is_neutral: bool,
    /// The note is the result, without charts.
    pub(super) is_statement: bool,
    /// Marks that the legend explains besides the targets.
    pub(super) keys: Vec<Key>,
    /// Heading and picture.
    pub(super) panels: Vec<(String, String)>,
    pub(super) table: Table,
}

/// Entry of a legend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// Hollow, grey.
    Invalid,
    /// A cross.
    FailedTrial,
    /// A small dot.
    Trial,
    /// A line with ends.
    Interval(&'static str),
    /// A dashed grey line.
    Reference(&'static str),
}

impl Figure {
    /// True if there is anything to show.
    pub(super) fn has_content(&self) -> bool {
        self.is_statement || !self.panels.is_empty() || !self.table.rows.is_empty()
    }

    /// HTML of the figure.
    pub(super) fn html(&self, results: &Results<'_>, entry: &Entry<'_>) -> String {
        let mut page = Markup::default();
        page.push(format_args!("<figure><h4>{}</h4>", Text(self.title)));
        if !self.panels.is_empty() {
            self.write_legend(&mut page, results, entry);
        }
        page.push(format_args!("<div class=\"panels\">"));
        for (heading, svg) in self.panels.iter().take(PANELS_MAX) {
            page.push(format_args!("<div class=\"panel\">"));
            if !heading.is_empty() {
                page.push(format_args!("<h5>{}</h5>", Text(&short(heading, HEADING_CHARS_MAX))));
            }
            page.push(format_args!("{svg}</div>"));
        }
        page.push(format_args!("</div><figcaption>{}", Text(&short(&self.note, NOTE_CHARS_MAX))));
        if let Some(more @ 1..) = self.panels.len().checked_sub(PANELS_MAX) {
            page.push(format_args!(" {more} panels more are only in the table."));
        }
        if !entry.experiment.command.is_empty() && !self.is_statement {
            let command = short(&entry.experiment.command, NOTE_CHARS_MAX);
            let command = Text(&command);
            page.push(format_args!("<p class=\"cmd\">Command: <code>{command}</code>"));
        }
        page.push(format_args!("</figcaption>"));
        if !self.table.rows.is_empty() {
            let open = if self.panels.is_empty() { " open" } else { "" };
            page.push(format_args!("<details{open}><summary>Numbers</summary>"));
            self.table.write(&mut page);
            page.push(format_args!("</details>"));
        }
        page.push(format_args!("</figure>"));
        page.into_string()
    }

    fn write_legend(&self, page: &mut Markup, results: &Results<'_>, entry: &Entry<'_>) {
        page.push(format_args!("<ul class=\"legend\">"));
        let parts = self.parts.iter().enumerate().map(|(part, name)| ('p', part, *name));
        for (kind, part, name) in parts.chain(self.stack.iter().map(|(part, name)| ('k', *part, *name))) {
            let swatch = format_args!(
                "<svg viewBox=\"0 0 14 12\" width=\"14\" height=\"12\"><rect class=\"{kind}{part}\" width=\"14\" height=\"12\"/></svg>"
            );
            page.push(format_args!("<li>{swatch}{}", Text(name)));
        }
        if self.parts.is_empty() && self.stack.is_empty() && !self.is_neutral {
            for target in entry.shown_targets() {
                let name = Text(results.name_of(target));
                let mark = shape(target, 17.0, 6.0);
                page.push(format_args!(
                    "<li>{LINE}<g class=\"t{target}\"><path class=\"l\" d=\"M0 6H34\"/><path class=\"m\" d=\"{mark}\"/></g></svg>{name}"
                ));
            }
        }
        for key in &self.keys {
            let (picture, name) = key.parts();
            page.push(format_args!("<li>{LINE}{picture}</svg>{}", Text(name)));
        }
        page.push(format_args!("</ul>"));
    }
}

impl Key {
    /// Picture and text.
    const fn parts(self) -> (&'static str, &'static str) {
        match self {
            Self::Invalid => ("<circle class=\"i\" cx=\"17\" cy=\"6\" r=\"4\"/>", "not valid: no result"),
            Self::FailedTrial => {
                ("<path class=\"x\" d=\"M13.5 2.5l7 7m0-7l-7 7\"/>", "trial missed the criterion")
            }
            Self::Trial => ("<circle class=\"d\" cx=\"17\" cy=\"6\" r=\"3\"/>", "trial"),
            Self::Interval(name) => ("<path class=\"w\" d=\"M4 2v8M4 6H30M30 2v8\"/>", name),
            Self::Reference(name) => ("<path class=\"r\" d=\"M0 6H34\"/>", name),
        }
    }
}

impl Entry<'_> {
    /// Numbers of the targets that have results, in ascending order.
    pub(super) fn shown_targets(&self) -> Vec<usize> {
        let series = self.variants.iter().flat_map(|variant| &variant.series).map(|series| series.target);
        let mut targets: Vec<usize> = series.chain(self.peaks.iter().map(|(target, _)| *target)).collect();
        targets.sort_unstable();
        targets.dedup();
        targets
    }
}

/// Start of a picture in a legend.
const LINE: &str = "<svg viewBox=\"0 0 34 12\" width=\"34\" height=\"12\" aria-hidden=\"true\">";

/// Longest text below the charts.
const NOTE_CHARS_MAX: usize = 1_500;

/// Longest heading of a panel.
const HEADING_CHARS_MAX: usize = 150;

/// Most panels of a figure.
const PANELS_MAX: usize = 16;
