//! Charts of shares: each row is the whole, divided into parts.

use super::html::{Text, percent, short};
use super::scale::{Kind, Scale};
use super::svg::{Area, CHAR, Svg, WIDTH, X_AXIS};

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
        let left = longest.min(NAME_CHARS) as f64 * CHAR + 10.0;
        let right = WIDTH - 16.0;
        let scale = Scale::new(Kind::Linear, [100.0].into_iter(), left, right);
        let bottom = TOP + self.rows.len() as f64 * ROW;
        let mut svg = Svg::new(bottom + X_AXIS, &self.description);
        svg.x_axis(Area { left, right, top: TOP, bottom }, &scale, "responses, %");
        for (index, row) in self.rows.iter().enumerate() {
            let y = TOP + index as f64 * ROW;
            svg.text("", (left - 6.0, y + 15.0), "end", &short(&row.name, NAME_CHARS));
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

const TOP: f64 = 4.0;
const ROW: f64 = 22.0;

/// Longest name of a row; the table has the whole one.
const NAME_CHARS: usize = 28;

#[cfg(test)]
mod tests {
    use super::*;

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
