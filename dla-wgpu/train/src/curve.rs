//! The loss curve as a picture.

use std::fmt::Write;

use crate::metrics::Line;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 360.0;
/// Left, right, top, bottom.
const MARGINS: [f64; 4] = [56.0, 16.0, 28.0, 40.0];
/// Points that a line is thinned to.
const MOST: usize = 1000;

/// An SVG of the losses of `lines`: the steps' and the evaluations'; losses that are not finite are left out.
///
/// ```
/// let svg = dla_train::curve::svg(&[]);
/// assert!(svg.starts_with("<svg ") && svg.contains("no steps yet"));
/// ```
pub fn svg(lines: &[Line]) -> String {
    let (mut steps, mut evaluations) = (Vec::new(), Vec::new());
    for line in lines {
        let (to, step, loss) = match line {
            Line::Step(line) => (&mut steps, line.step, line.loss),
            Line::Evaluation(line) => (&mut evaluations, line.step, line.evaluation_loss),
        };
        if loss.is_finite() {
            to.push((step as f64, loss));
        }
    }
    let axes = Axes::of(steps.iter().chain(&evaluations));
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         font-family=\"system-ui, sans-serif\" font-size=\"12\" fill=\"#333\">\n\
         <title>Loss by step</title>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    match axes {
        None => {
            out.push_str("<text x=\"50%\" y=\"50%\" text-anchor=\"middle\">no steps yet</text>\n")
        }
        Some(axes) => {
            axes.grid(&mut out);
            axes.line(&mut out, &thinned(&steps), "#1f6feb", 1.25);
            axes.line(&mut out, &evaluations, "#c2410c", 2.0);
            legend(&mut out, !evaluations.is_empty());
        }
    }
    out + "</svg>\n"
}

/// The ranges of both axes.
struct Axes {
    x: [f64; 2],
    y: [f64; 2],
}

impl Axes {
    /// Those that hold all points, if there are any.
    fn of<'a>(points: impl Iterator<Item = &'a (f64, f64)>) -> Option<Self> {
        let mut range: Option<Self> = None;
        for &(x, y) in points {
            let axes = range.get_or_insert(Self {
                x: [0.0, x],
                y: [y, y],
            });
            axes.x[1] = axes.x[1].max(x);
            axes.y = [axes.y[0].min(y), axes.y[1].max(y)];
        }
        range.map(
            |Self {
                 x,
                 y: [least, most],
             }| {
                let room = ((most - least) * 0.05).max(1e-6 * (1.0 + most.abs()));
                Self {
                    x: [x[0], x[1].max(1.0)],
                    y: [least - room, most + room],
                }
            },
        )
    }

    fn place(&self, x: f64, y: f64) -> (f64, f64) {
        let [left, right, top, bottom] = MARGINS;
        let part = |v: f64, [least, most]: [f64; 2]| (v - least) / (most - least);
        (
            left + part(x, self.x) * (WIDTH - left - right),
            HEIGHT - bottom - part(y, self.y) * (HEIGHT - top - bottom),
        )
    }

    fn grid(&self, out: &mut String) {
        let [left, right, top, bottom] = MARGINS;
        for y in ticks(self.y, 5) {
            let (_, at) = self.place(0.0, y);
            let _ = writeln!(
                out,
                "<path d=\"M{left} {at:.1}H{}\" stroke=\"#e5e7eb\"/><text x=\"{}\" y=\"{:.1}\" \
                 text-anchor=\"end\">{}</text>",
                WIDTH - right,
                left - 8.0,
                at + 4.0,
                number(y)
            );
        }
        for x in ticks(self.x, 6) {
            let (at, _) = self.place(x, self.y[0]);
            let _ = writeln!(
                out,
                "<path d=\"M{at:.1} {top}V{}\" stroke=\"#f3f4f6\"/><text x=\"{at:.1}\" y=\"{}\" \
                 text-anchor=\"middle\">{}</text>",
                HEIGHT - bottom,
                HEIGHT - bottom + 18.0,
                number(x)
            );
        }
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">step</text>\
             <text x=\"{left}\" y=\"16\">loss (nats)</text>",
            (left + WIDTH - right) / 2.0,
            HEIGHT - 6.0
        );
    }

    fn line(&self, out: &mut String, points: &[(f64, f64)], colour: &str, width: f64) {
        if points.is_empty() {
            return;
        }
        let place = |&(x, y): &(f64, f64)| {
            let (x, y) = self.place(x, y);
            format!("{x:.1},{y:.1}")
        };
        let places: Vec<String> = points.iter().map(place).collect();
        let _ = writeln!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\" \
             stroke-linejoin=\"round\"/>",
            places.join(" ")
        );
    }
}

fn legend(out: &mut String, evaluated: bool) {
    let mut entry = |x: f64, colour: &str, word: &str| {
        let _ = writeln!(
            out,
            "<path d=\"M{x} 12H{}\" stroke=\"{colour}\" stroke-width=\"2\"/>\
             <text x=\"{}\" y=\"16\">{word}</text>",
            x + 20.0,
            x + 26.0
        );
    };
    entry(WIDTH - 220.0, "#1f6feb", "training");
    if evaluated {
        entry(WIDTH - 120.0, "#c2410c", "held out");
    }
}

/// Means of runs of neighbours, so that at most [`MOST`] points are left.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let run = points.len().div_ceil(MOST).max(1);
    let mean = |points: &[(f64, f64)]| {
        let sum = points
            .iter()
            .fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
        let n = points.len() as f64;
        (sum.0 / n, sum.1 / n)
    };
    points.chunks(run).map(mean).collect()
}

/// Round numbers in a range, about `count` of them.
fn ticks([least, most]: [f64; 2], count: usize) -> Vec<f64> {
    let rough = (most - least) / count as f64;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|n| n * power);
    let step = step
        .into_iter()
        .find(|&step| step >= rough)
        .unwrap_or(power);
    let first = (least / step).ceil() as i64;
    (first..)
        .map(|i| i as f64 * step)
        .take_while(|&x| x <= most)
        .take(4 * count)
        .collect()
}

/// At most four decimals.
fn number(x: f64) -> String {
    let text = format!("{x:.4}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::{svg, ticks};
    use crate::metrics::{EvaluationLine, Line, StepLine};

    fn step(step: u64, loss: f64) -> Line {
        Line::Step(StepLine {
            step,
            loss,
            rate: 0.0,
            gradient_norm: None,
            loss_scale: None,
            skipped: None,
            tokens_per_second: 0.0,
        })
    }

    #[test]
    fn both_lines_are_drawn_inside_the_picture() {
        let mut lines: Vec<Line> = (1..5000).map(|i| step(i, 9.0 / i as f64)).collect();
        lines.push(step(5000, f64::NAN));
        lines.push(Line::Evaluation(EvaluationLine {
            step: 4000,
            evaluation_loss: 3.0,
            accuracy: 0.5,
        }));
        let svg = svg(&lines);
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert!(!svg.contains("NaN") && svg.len() < 40_000);
        for line in svg.lines().filter(|line| line.starts_with("<polyline")) {
            let points = line.split('"').nth(1).expect("points");
            for point in points.split(' ') {
                let (x, y) = point.split_once(',').expect("two numbers");
                assert!((0.0..=720.0).contains(&x.parse::<f64>().expect("a number")));
                assert!((0.0..=360.0).contains(&y.parse::<f64>().expect("a number")));
            }
        }
        assert!(
            super::svg(&[step(1, 2.0)]).contains("polyline"),
            "one point is a picture"
        );
    }

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(ticks([0.0, 10.0], 5), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(ticks([0.31, 0.46], 5).len(), 3);
    }
}
