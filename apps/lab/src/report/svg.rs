//! Parts that all charts have: the picture, axes, marks.

use super::html::{Markup, Text, short};
use super::scale::Scale;
use std::fmt;

/// Width of every chart. The page scales it.
pub(super) const WIDTH: f64 = 480.0;

/// Width of a character, in a wide font.
pub(super) const CHAR: f64 = 7.2;

/// Width of a bold character.
pub(super) const BOLD: f64 = 8.2;

/// Space below an area for the labels and the title of its axis.
pub(super) const X_AXIS: f64 = 42.0;

/// Number of targets that have a colour, a dash and a mark of their own.
pub(super) const STYLES: usize = 6;

/// An SVG picture that is being drawn.
pub(super) struct Svg {
    markup: Markup,
}

/// Rectangle between the axes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
}

/// Mark of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// In the shape of the target.
    Target(usize),
    /// Hollow and grey: a value that does not count.
    Invalid,
    /// A small cross: a trial that failed.
    Cross,
    /// A small dot: one of several trials.
    Dot,
}

impl Svg {
    /// Starts a picture. `description` is its text for readers who do not see it.
    pub(super) fn new(height: f64, description: &str) -> Self {
        let mut markup = Markup::default();
        markup.push(format_args!(
            "<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{}\">",
            Text(&short(description, TIP_CHARS_MAX))
        ));
        Self { markup }
    }

    pub(super) fn push(&mut self, markup: fmt::Arguments<'_>) {
        self.markup.push(markup);
    }

    pub(super) fn done(mut self) -> String {
        self.push(format_args!("</svg>"));
        self.markup.into_string()
    }

    /// Writes a label. `anchor` is `start` (or that of the group), `middle` or `end`.
    pub(super) fn text(&mut self, class: &str, (x, y): (f64, f64), anchor: &str, text: &str) {
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        let anchor = if anchor == "start" { String::new() } else { format!(" text-anchor=\"{anchor}\"") };
        self.push(format_args!("<text{class} x=\"{x:.0}\" y=\"{y:.0}\"{anchor}>{}</text>", Text(text)));
    }

    /// Draws lines and labels of a horizontal axis below the area, and its title.
    pub(super) fn x_axis(&mut self, area: Area, scale: &Scale, title: &str) {
        let mut lines = Markup::default();
        self.push(format_args!("<g text-anchor=\"middle\">"));
        for (value, label) in scale.ticks(tick_count(area, scale)) {
            let x = scale.at_or_end(value);
            lines.push(format_args!("M{x:.1} {:.0}V{:.0}", area.top, area.bottom));
            self.text("", (x, area.bottom + 18.0), "start", &label);
        }
        self.text("a", ((area.left + area.right) / 2.0, area.bottom + 36.0), "start", title);
        self.push(format_args!("</g><path class=\"g\" d=\"{lines}\"/>"));
    }

    /// Draws lines and labels of a vertical axis left of the area, and its title above it.
    pub(super) fn y_axis(&mut self, area: Area, scale: &Scale, title: &str) {
        let mut lines = Markup::default();
        self.push(format_args!("<g text-anchor=\"end\">"));
        for (value, label) in scale.ticks(6) {
            let y = scale.at_or_end(value);
            lines.push(format_args!("M{:.0} {y:.1}H{:.0}", area.left, area.right));
            self.text("", (area.left - 6.0, y + 4.0), "start", &label);
        }
        self.push(format_args!("</g><path class=\"g\" d=\"{lines}\"/>"));
        self.text("a", (0.0, 12.0), "start", title);
    }

    /// Draws a mark with its tooltip.
    pub(super) fn mark(&mut self, mark: Mark, (x, y): (f64, f64), tip: &str) {
        let tip = short(tip, TIP_CHARS_MAX);
        let tip = Text(&tip);
        match mark {
            Mark::Target(style) => {
                let path = shape(style, x, y);
                self.push(format_args!("<path class=\"m\" d=\"{path}\"><title>{tip}</title></path>"));
            }
            Mark::Invalid => self.push(format_args!(
                "<circle class=\"i\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"><title>{tip}</title></circle>"
            )),
            Mark::Cross => self.push(format_args!(
                "<path class=\"x\" d=\"M{:.1} {:.1}l7 7m0-7l-7 7\"><title>{tip}</title></path>",
                x - 3.5,
                y - 3.5
            )),
            Mark::Dot => self.push(format_args!(
                "<circle class=\"d\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"><title>{tip}</title></circle>"
            )),
        }
    }
}

/// Width that the labels of a vertical axis need, with some space.
pub(super) fn label_width(scale: &Scale) -> f64 {
    let longest = scale.ticks(6).iter().map(|(_, label)| label.chars().count()).max().unwrap_or(1);
    (longest as f64 * CHAR + 10.0).clamp(28.0, 110.0)
}

/// Ticks whose labels fit beside each other.
fn tick_count(area: Area, scale: &Scale) -> usize {
    let longest = scale.ticks(6).iter().map(|(_, label)| label.chars().count()).max().unwrap_or(1);
    let room = (area.right - area.left) / (longest as f64 * CHAR + 14.0);
    (room.floor() as usize).clamp(2, 8)
}

/// Outline of the mark of a target.
pub(super) fn shape(style: usize, x: f64, y: f64) -> String {
    match style % STYLES {
        0 => format!("M{:.1} {y:.1}a4 4 0 1 0 8 0a4 4 0 1 0-8 0z", x - 4.0),
        1 => format!("M{:.1} {:.1}h7v7h-7z", x - 3.5, y - 3.5),
        2 => format!("M{x:.1} {:.1}l4.8 8.2h-9.6z", y - 5.2),
        3 => format!("M{x:.1} {:.1}l5 5l-5 5l-5-5z", y - 5.0),
        4 => format!("M{x:.1} {:.1}l4.8-8.2h-9.6z", y + 5.2),
        _ => format!("M{:.1} {:.1}h3v-3h3v3h3v3h-3v3h-3v-3h-3z", x - 4.5, y - 1.5),
    }
}

/// Longest tooltip.
const TIP_CHARS_MAX: usize = 200;
