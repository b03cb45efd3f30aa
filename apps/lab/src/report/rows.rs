//! Charts of rows: targets beside each other, each a bar, an interval, or its trials as dots; and charts of shares,
//! where each row is the whole, divided into parts.

use super::html::{Text, percent, short};
use super::plot::Axis;
use super::scale::{Kind, Scale, is_usable};
use super::svg::{Area, CHAR, Mark, Svg, WIDTH, X_AXIS};

/// A chart of rows.
#[derive(Clone, Debug, Default)]
pub(super) struct Rows {
    /// Text for readers who do not see the chart.
    pub(super) description: String,
    pub(super) axis: Axis,
    pub(super) groups: Vec<Group>,
    /// Value with a line over all rows.
    pub(super) reference: Option<f64>,
}

/// Rows with a common heading.
#[derive(Clone, Debug, Default)]
pub(super) struct Group {
    pub(super) name: String,
    pub(super) rows: Vec<Row>,
}

/// A row.
#[derive(Clone, Debug, Default)]
pub(super) struct Row {
    /// Colour and mark.
    pub(super) style: usize,
    /// Text before the row.
    pub(super) name: String,
    /// Bar from the axis.
    pub(super) bar: Option<f64>,
    /// Interval, drawn as a line with ends.
    pub(super) interval: Option<(f64, f64)>,
    pub(super) dots: Vec<Dot>,
    /// Text behind the row: its value with the unit.
    pub(super) label: String,
    /// Tooltip of the bar.
    pub(super) tip: String,
}

/// A value in a row.
#[derive(Clone, Debug)]
pub(super) struct Dot {
    pub(super) value: f64,
    pub(super) mark: Mark,
    pub(super) tip: String,
}

impl Rows {
    /// True if no value can be shown.
    pub(super) fn is_empty(&self) -> bool {
        !self.rows().flat_map(Row::values).any(|value| is_usable(self.axis.kind, value))
    }

    /// Draws the chart.
    pub(super) fn svg(&self) -> String {
        let width = |text: fn(&Row) -> &String, chars_max: usize| {
            let longest = self.rows().map(|row| text(row).chars().count()).max().unwrap_or(0);
            longest.min(chars_max) as f64 * CHAR + 12.0
        };
        let (left, right) =
            (width(|row| &row.name, NAME_CHARS), WIDTH - width(|row| &row.label, LABEL_CHARS));
        let values = self.rows().flat_map(Row::values).chain([self.axis.contains]).chain(self.reference);
        let scale = Scale::new(self.axis.kind, values, left, right);
        let headings = self.groups.iter().filter(|group| !group.name.is_empty()).count();
        let bottom = TOP + headings as f64 * HEADING + self.rows().count() as f64 * ROW;
        let mut svg = Svg::new(bottom + X_AXIS, &self.description);
        svg.x_axis(Area { left, right, top: TOP, bottom }, &scale, self.axis.title);
        if let Some(x) = self.reference.and_then(|value| scale.at(value)) {
            svg.push(format_args!("<path class=\"r\" d=\"M{x:.1} {TOP}V{bottom:.0}\"/>"));
        }
        let mut y = TOP;
        for group in &self.groups {
            if !group.name.is_empty() {
                svg.text("h", (0.0, y + 14.0), "start", &short(&group.name, HEADING_CHARS));
                y += HEADING;
            }
            for row in &group.rows {
                row.draw(&mut svg, &scale, y + ROW / 2.0, right);
                y += ROW;
            }
        }
        svg.done()
    }

    fn rows(&self) -> impl Iterator<Item = &Row> {
        self.groups.iter().flat_map(|group| &group.rows)
    }
}

impl Row {
    fn values(&self) -> impl Iterator<Item = f64> {
        let interval = self.interval.into_iter().flat_map(|(low, high)| [low, high]);
        self.dots.iter().map(|dot| dot.value).chain(self.bar).chain(interval)
    }

    fn draw(&self, svg: &mut Svg, scale: &Scale, y: f64, right: f64) {
        svg.push(format_args!("<g class=\"t{}\">", self.style));
        let start = scale.at_or_end(scale.ends().0);
        if !self.name.is_empty() {
            svg.text("", (start - 8.0, y + 4.0), "end", &short(&self.name, NAME_CHARS));
        }
        if let Some(end) = self.bar.and_then(|value| scale.at(value)) {
            svg.push(format_args!(
                "<rect class=\"b\" x=\"{start:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"14\" rx=\"1\"><title>{}</title></rect>",
                y - 7.0,
                (end - start).max(0.5),
                super::html::Text(&self.tip)
            ));
        }
        if let Some((low, high)) = self.interval {
            let (low, high) = (scale.at_or_end(low), scale.at_or_end(high));
            svg.push(format_args!(
                "<path class=\"w\" d=\"M{low:.1} {:.1}v8M{low:.1} {y:.1}H{high:.1}M{high:.1} {:.1}v8\"/>",
                y - 4.0,
                y - 4.0
            ));
        }
        let mut taken: Vec<(i64, u32)> = Vec::new();
        for dot in &self.dots {
            let Some(x) = scale.at(dot.value) else { continue };
            // Trials with one value are moved apart: above and below the middle by turns.
            let key = (x / 3.0).round() as i64;
            let before = match taken.iter_mut().find(|(at, _)| *at == key) {
                Some((_, count)) => {
                    *count += 1;
                    *count - 1
                }
                None => {
                    taken.push((key, 1));
                    0
                }
            };
            let steps = f64::from(before.div_ceil(2).min(3));
            let away = if before.is_multiple_of(2) { -steps } else { steps } * 3.0;
            svg.mark(dot.mark, (x, y + away), &dot.tip);
        }
        if !self.label.is_empty() {
            svg.text("v", (right + 8.0, y + 4.0), "start", &short(&self.label, LABEL_CHARS));
        }
        svg.push(format_args!("</g>"));
    }
}

/// A chart of shares.
#[derive(Clone, Debug, Default)]
pub(super) struct Shares {
    /// Text for readers who do not see the chart.
    pub(super) description: String,
    /// Names of the parts, from the first one on.
    pub(super) parts: &'static [&'static str],
    pub(super) rows: Vec<ShareRow>,
}

/// A whole.
#[derive(Clone, Debug, Default)]
pub(super) struct ShareRow {
    pub(super) name: String,
    /// Shares from 0 to 1, one for each part.
    pub(super) shares: Vec<f64>,
}

impl Shares {
    /// Draws the chart.
    pub(super) fn svg(&self) -> String {
        let longest = self.rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
        let left = longest.min(SHARES_NAME_CHARS) as f64 * CHAR + 10.0;
        let right = WIDTH - 16.0;
        let scale = Scale::new(Kind::Linear, [100.0].into_iter(), left, right);
        let bottom = SHARES_TOP + self.rows.len() as f64 * SHARES_ROW;
        let mut svg = Svg::new(bottom + X_AXIS, &self.description);
        svg.x_axis(Area { left, right, top: SHARES_TOP, bottom }, &scale, "responses, %");
        for (index, row) in self.rows.iter().enumerate() {
            let y = SHARES_TOP + index as f64 * SHARES_ROW;
            svg.text("", (left - 6.0, y + 15.0), "end", &short(&row.name, SHARES_NAME_CHARS));
            self.draw_row(&mut svg, row, (left, right, y));
        }
        svg.done()
    }

    fn draw_row(&self, svg: &mut Svg, row: &ShareRow, (left, right, y): (f64, f64, f64)) {
        let mut from = 0.0;
        for (part, (share, name)) in row.shares.iter().zip(self.parts).enumerate() {
            let share = if share.is_finite() { share.clamp(0.0, 1.0 - from) } else { 0.0 };
            if share <= 0.0 {
                continue;
            }
            let (x, width) = (left + from * (right - left), share * (right - left));
            svg.push(format_args!(
                "<rect class=\"p{part}\" x=\"{x:.1}\" y=\"{:.0}\" width=\"{width:.1}\" height=\"16\"><title>{}: {}, {}</title></rect>",
                y + 3.0,
                Text(&row.name),
                Text(name),
                Text(&percent(share))
            ));
            let label = percent(share);
            if width > label.chars().count() as f64 * CHAR + 6.0 {
                svg.text(&format!("o{part}"), (x + width / 2.0, y + 15.0), "middle", &label);
            }
            from += share;
        }
    }
}

const TOP: f64 = 6.0;

/// Height of a row and of a heading.
const ROW: f64 = 24.0;
const HEADING: f64 = 22.0;

/// Longest texts; the table has the whole ones.
const NAME_CHARS: usize = 22;
const LABEL_CHARS: usize = 20;
const HEADING_CHARS: usize = 57;
const SHARES_TOP: f64 = 4.0;
const SHARES_ROW: f64 = 22.0;

/// Longest name of a row; the table has the whole one.
const SHARES_NAME_CHARS: usize = 28;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_its_bar_interval_dots_and_label() {
        let dot = |value, mark| Dot { value, mark, tip: "1".into() };
        let row = Row {
            name: "ringway".into(),
            bar: Some(5.0),
            interval: Some((4.0, 6.0)),
            dots: vec![
                dot(5.0, Mark::Dot),
                dot(5.0, Mark::Cross),
                dot(f64::NAN, Mark::Dot),
                dot(4.0, Mark::Invalid),
            ],
            label: "5 µs".into(),
            ..Row::default()
        };
        let group = Group { name: "udp <b>".into(), rows: vec![row.clone(), row] };
        let rows = Rows { groups: vec![group], reference: Some(1.0), ..Rows::default() };
        let svg = rows.svg();
        let count = |class: &str| svg.matches(&format!("class=\"{class}\"")).count();
        assert_eq!((count("b"), count("w"), count("d"), count("x"), count("i")), (2, 2, 2, 2, 2));
        assert_eq!((count("v"), count("h"), count("r")), (2, 1, 1));
        assert!(svg.contains("udp &lt;b&gt;") && !svg.contains("NaN"), "{svg}");
    }

    #[test]
    fn trials_with_one_value_are_beside_each_other() {
        let dots = (0..4).map(|_| Dot { value: 5.0, mark: Mark::Dot, tip: String::new() }).collect();
        let group = Group { rows: vec![Row { dots, ..Row::default() }], ..Group::default() };
        let svg = Rows { groups: vec![group], ..Rows::default() }.svg();
        let heights: std::collections::BTreeSet<&str> =
            svg.split("cy=\"").skip(1).map(|part| part.split('"').next().unwrap()).collect();
        assert_eq!(heights.len(), 4);
    }

    #[test]
    fn rows_without_values_are_no_chart() {
        let group = Group { rows: vec![Row { bar: Some(f64::NAN), ..Row::default() }], ..Group::default() };
        assert!(Rows { groups: vec![group], ..Rows::default() }.is_empty());
    }

    #[test]
    fn parts_are_drawn_up_to_the_whole() {
        let rows = [vec![0.5, 0.25, 0.25], vec![1.0, 0.0, 0.0], vec![f64::NAN, 7.0, 1.0]];
        let rows = rows.into_iter().map(|shares| ShareRow { name: "<i>".into(), shares }).collect();
        let shares = Shares { parts: &["a", "b", "c"], rows, ..Shares::default() };
        let svg = shares.svg();
        assert_eq!(svg.matches("<rect").count(), 3 + 1 + 1);
        assert!(
            svg.contains("&lt;i&gt;: a, 50\u{a0}%") && !svg.contains("<i>") && !svg.contains("NaN"),
            "{svg}"
        );
    }
}
