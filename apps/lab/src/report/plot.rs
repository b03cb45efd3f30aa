//! Charts of lines: a value of each target against another value.

use super::html::{Markup, short};
use super::scale::{Kind, Scale, is_usable};
use super::svg::{Area, BOLD, Mark, Svg, WIDTH, X_AXIS, label_width};

/// A chart of lines.
#[derive(Clone, Debug, Default)]
pub(super) struct Plot {
    /// Text for readers who do not see the chart.
    pub(super) description: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) lines: Vec<Line>,
    /// Line that the values would follow at best.
    pub(super) reference: Option<Reference>,
}

/// An axis with its title, which names the unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    pub(super) title: &'static str,
    pub(super) kind: Kind,
    /// Value that the axis contains in any case.
    pub(super) contains: f64,
}

impl Default for Axis {
    fn default() -> Self {
        Self { title: "", kind: Kind::Linear, contains: 0.0 }
    }
}

/// A line of reference.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reference {
    /// y = x.
    Diagonal,
    /// y is this value.
    Level(f64),
}

/// Values of a target.
#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    /// Colour, dash and mark.
    pub(super) style: usize,
    /// Label at its right end.
    pub(super) label: String,
    /// Drawn thin: of less weight than the others.
    pub(super) is_thin: bool,
    /// Without marks: a curve of many points.
    pub(super) is_curve: bool,
    pub(super) points: Vec<Point>,
}

/// A value.
#[derive(Clone, Debug, Default)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
    /// Range of the trials.
    pub(super) range: Option<(f64, f64)>,
    /// Not a result: drawn hollow and apart from the line.
    pub(super) is_invalid: bool,
    /// Tooltip.
    pub(super) tip: String,
}

impl Plot {
    /// True if no value can be shown.
    pub(super) fn is_empty(&self) -> bool {
        !self.points().any(|point| is_usable(self.x.kind, point.x) && is_usable(self.y.kind, point.y))
    }

    /// Draws the chart.
    pub(super) fn svg(&self) -> String {
        let longest = self.lines.iter().map(|line| line.label.chars().count()).max().unwrap_or(0);
        let right = WIDTH - (longest.min(LABEL_CHARS) as f64 * BOLD + 12.0);
        let ys = self.points().flat_map(|point| {
            let (low, high) = point.range.unwrap_or((point.y, point.y));
            [point.y, low, high]
        });
        let y = Scale::new(self.y.kind, ys.chain([self.y.contains]), BOTTOM, TOP);
        let left = label_width(&y);
        let xs = self.points().map(|point| point.x).chain([self.x.contains]);
        let x = Scale::new(self.x.kind, xs, left, right);
        let area = Area { left, right, top: TOP, bottom: BOTTOM };
        let mut svg = Svg::new(HEIGHT, &self.description);
        svg.y_axis(area, &y, self.y.title);
        svg.x_axis(area, &x, self.x.title);
        self.draw_reference(&mut svg, area, &x, &y);
        let mut labels = Vec::new();
        for line in &self.lines {
            svg.push(format_args!("<g class=\"t{}{}\">", line.style, if line.is_thin { " n" } else { "" }));
            line.draw(&mut svg, &x, &y);
            svg.push(format_args!("</g>"));
            labels.extend(line.label_at(&x, &y));
        }
        if self.lines.iter().any(|line| line.is_curve) {
            place_on_curves(&mut labels, area);
        } else {
            place_beside(&mut labels, area);
        }
        for label in &labels {
            let class = format!("e t{}", label.style);
            svg.text(&class, (label.x, label.y + 4.0), label.anchor, &short(label.text, LABEL_CHARS));
        }
        svg.done()
    }

    fn points(&self) -> impl Iterator<Item = &Point> {
        self.lines.iter().flat_map(|line| &line.points)
    }

    fn draw_reference(&self, svg: &mut Svg, area: Area, x: &Scale, y: &Scale) {
        let (from, to, label) = match self.reference {
            None => return,
            Some(Reference::Level(level)) => {
                let Some(at) = y.at(level) else { return };
                ((area.left, at), (area.right, at), "")
            }
            Some(Reference::Diagonal) => {
                let (low, high) = (x.ends().0.max(y.ends().0), x.ends().1.min(y.ends().1));
                let (Some(x0), Some(y0), Some(x1), Some(y1)) = (x.at(low), y.at(low), x.at(high), y.at(high))
                else {
                    return;
                };
                ((x0, y0), (x1, y1), "y = x")
            }
        };
        svg.push(format_args!(
            "<path class=\"r\" d=\"M{:.1} {:.1}L{:.1} {:.1}\"/>",
            from.0, from.1, to.0, to.1
        ));
        if !label.is_empty() {
            let (x, y) = (from.0 + (to.0 - from.0) * 0.6, from.1 + (to.1 - from.1) * 0.6);
            svg.text("q", (x - 8.0, y - 2.0), "end", label);
        }
    }
}

impl Line {
    /// Draws the line and its marks; marks of invalid values are below the others.
    fn draw(&self, svg: &mut Svg, x: &Scale, y: &Scale) {
        let mut path = Markup::default();
        for (at_x, at_y) in self.coordinates(x, y) {
            let letter = if path.len() == 0 { 'M' } else { ' ' };
            path.push(format_args!("{letter}{at_x:.1} {at_y:.1}"));
        }
        if path.len() > 0 {
            svg.push(format_args!("<path class=\"l\" d=\"{path}\"/>"));
        }
        if self.is_curve {
            return;
        }
        let (invalid, valid): (Vec<&Point>, Vec<&Point>) =
            self.points.iter().partition(|point| point.is_invalid);
        let mut ranges = Markup::default();
        for point in &valid {
            let (Some(at_x), Some((low, high))) = (x.at(point.x), point.range) else { continue };
            let (low, high) = (y.at_or_end(low), y.at_or_end(high));
            if (low - high).abs() > 1.0 {
                ranges.push(format_args!("M{at_x:.1} {low:.1}V{high:.1}"));
            }
        }
        if ranges.len() > 0 {
            svg.push(format_args!("<path class=\"w\" d=\"{ranges}\"/>"));
        }
        for point in invalid.into_iter().chain(valid) {
            let (Some(at_x), Some(at_y)) = (x.at(point.x), y.at(point.y)) else { continue };
            let mark = if point.is_invalid { Mark::Invalid } else { Mark::Target(self.style) };
            svg.mark(mark, (at_x, at_y), &point.tip);
        }
    }

    /// Coordinates of the values that count.
    fn coordinates(&self, x: &Scale, y: &Scale) -> impl DoubleEndedIterator<Item = (f64, f64)> {
        let valid = self.points.iter().filter(|point| !point.is_invalid);
        valid.filter_map(|point| Some((x.at(point.x)?, y.at(point.y)?)))
    }

    /// Label with the end of the line, or with the middle of a curve.
    fn label_at(&self, x: &Scale, y: &Scale) -> Option<Label<'_>> {
        let mut at = self.coordinates(x, y);
        let (x, y) =
            if self.is_curve { at.find(|(_, y)| *y < (TOP + BOTTOM) / 2.0) } else { at.next_back() }?;
        Some(Label { x, y, anchor: "start", style: self.style, text: &self.label })
    }
}

/// Label of a line.
struct Label<'a> {
    x: f64,
    y: f64,
    anchor: &'static str,
    style: usize,
    text: &'a str,
}

/// Moves labels to the right of the area, and apart if they would overlap.
fn place_beside(labels: &mut [Label<'_>], area: Area) {
    labels.sort_by(|a, b| a.y.total_cmp(&b.y));
    let mut above = TOP - LABEL_HEIGHT;
    for label in labels.iter_mut() {
        label.x = area.right + 9.0;
        label.y = label.y.max(above + LABEL_HEIGHT);
        above = label.y;
    }
    let mut below = BOTTOM + LABEL_HEIGHT;
    for label in labels.iter_mut().rev() {
        label.y = label.y.min(below - LABEL_HEIGHT);
        below = label.y;
    }
}

/// Moves the label of the first curve to its left, if there is room, and those of the others to the right, each a line lower.
fn place_on_curves(labels: &mut [Label<'_>], area: Area) {
    labels.sort_by(|a, b| a.x.total_cmp(&b.x));
    for (index, label) in labels.iter_mut().enumerate() {
        let width = label.text.chars().count().min(LABEL_CHARS) as f64 * BOLD + 9.0;
        if index == 0 && label.x - width > area.left {
            (label.x, label.anchor) = (label.x - 9.0, "end");
        } else {
            label.x += 9.0;
            label.y += index as f64 * LABEL_HEIGHT;
        }
    }
}

const HEIGHT: f64 = 270.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = HEIGHT - X_AXIS;

/// Longest label of a line; the legend has the whole name.
const LABEL_CHARS: usize = 16;

const LABEL_HEIGHT: f64 = 14.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn line(style: usize, label: &str, values: &[(f64, f64)]) -> Line {
        let point = |&(x, y): &(f64, f64)| Point { x, y, tip: format!("{x}: {y}"), ..Point::default() };
        Line { style, label: label.into(), points: values.iter().map(point).collect(), ..Line::default() }
    }

    fn plot(lines: Vec<Line>) -> Plot {
        let axis = Axis { title: "offered, attempts/s", ..Axis::default() };
        Plot { lines, x: axis, y: axis, ..Plot::default() }
    }

    #[test]
    fn every_value_has_a_mark_and_every_line_a_label() {
        let lines = vec![
            line(0, "one", &[(1.0, 1.0), (2.0, 2.0), (3.0, 2.5)]),
            line(1, "two", &[(1.0, 1.0), (2.0, 1.5)]),
        ];
        let svg = Plot { reference: Some(Reference::Diagonal), ..plot(lines) }.svg();
        assert_eq!(svg.matches("class=\"m\"").count(), 5);
        assert_eq!(svg.matches("class=\"l\"").count(), 2);
        assert_eq!(svg.matches("class=\"e t").count(), 2);
        assert_eq!(svg.matches("class=\"r\"").count(), 1);
        assert_eq!(svg.matches("<svg").count(), svg.matches("</svg>").count());
    }

    #[test]
    fn an_invalid_value_is_hollow_and_not_in_the_line() {
        let mut one = line(0, "one", &[(1.0, 1.0), (2.0, 2.0), (3.0, 3.0)]);
        one.points.get_mut(1).unwrap().is_invalid = true;
        let svg = plot(vec![one]).svg();
        assert_eq!((svg.matches("class=\"i\"").count(), svg.matches("class=\"m\"").count()), (1, 2));
        let path = svg.split("class=\"l\" d=\"").nth(1).unwrap().split('"').next().unwrap();
        assert_eq!(path.split(' ').count(), 4);
    }

    #[test]
    fn labels_of_lines_that_end_together_do_not_overlap() {
        let lines = (0..6).map(|style| line(style, "same", &[(1.0, 1.0)])).collect();
        let svg = plot(lines).svg();
        let mut heights: Vec<f64> = svg
            .split("class=\"e t")
            .skip(1)
            .map(|part| part.split("y=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap())
            .collect();
        heights.sort_by(f64::total_cmp);
        assert_eq!(heights.len(), 6);
        assert!(heights.windows(2).all(|pair| matches!(pair, [a, b] if b - a >= 13.0)), "{heights:?}");
    }

    #[test]
    fn hostile_values_and_names_draw_nothing_outside_the_picture() {
        let values = [(f64::NAN, 1.0), (1.0, f64::INFINITY), (1e300, 1.0), (-5.0, -5.0), (2.0, 2.0)];
        let svg = plot(vec![line(0, "<script>", &values)]).svg();
        assert_eq!(svg.matches("class=\"m\"").count(), 1);
        assert!(!svg.contains("<script") && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert!(plot(vec![line(0, "a", &values[..4])]).is_empty());
    }
}
