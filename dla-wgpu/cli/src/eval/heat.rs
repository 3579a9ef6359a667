//! The heat map of needles found: self-contained, loads nothing.

use std::fmt::Write;
use std::path::Path;

use dla_core::{Error, Result};
use dla_train::eval::needles::Cell;

use crate::atomic;

/// Left, top and the sizes of a cell.
const LEFT: usize = 150;
const TOP: usize = 48;
const CELL: [usize; 2] = [56, 26];
/// What the axis of depths needs for its title.
const TITLE: usize = 200;

/// Where a heat map goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Picture<'a> {
    path: &'a Path,
    page: bool,
}

impl<'a> Picture<'a> {
    /// The picture that the ending of `path` asks for.
    pub(super) fn of(path: &'a Path) -> Result<Self> {
        let page = match path.extension().and_then(|ending| ending.to_str()) {
            Some("svg") => false,
            Some("html" | "htm") => true,
            _ => {
                let (expected, got) = ("a file ending in .html or .svg", path.display());
                return Err(Error::input("eval", "--picture", expected, got));
            }
        };
        atomic::check(path)?;
        Ok(Self { path, page })
    }

    pub(super) fn write(&self, cells: &[Cell]) -> Result<()> {
        let svg = svg(cells);
        let text = match self.page {
            false => svg,
            true => format!(
                "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
                 <title>Needles found</title>\n<body style=\"margin:2rem\">\n{svg}</body>\n</html>\n"
            ),
        };
        atomic::write(self.path, text.as_bytes())
    }
}

/// A row for each kind and length, a column for each depth.
fn svg(cells: &[Cell]) -> String {
    let (mut rows, mut depths) = (Vec::new(), Vec::new());
    for cell in cells {
        let row = (cell.kind, cell.length);
        if !rows.contains(&row) {
            rows.push(row);
        }
        if !depths.contains(&cell.depth) {
            depths.push(cell.depth);
        }
    }
    let [width, height] = [
        LEFT + TITLE.max(CELL[0] * depths.len()) + 16,
        TOP + CELL[1] * rows.len() + 16,
    ];
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         role=\"img\" font-family=\"system-ui, sans-serif\" font-size=\"12\" fill=\"#333\">\n\
         <title>Needles found, in percent, by kind, length and depth</title>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"{LEFT}\" y=\"16\">depth of the needle, % of the text</text>\n"
    );
    for (column, depth) in depths.iter().enumerate() {
        let x = LEFT + CELL[0] * column + CELL[0] / 2;
        let _ = writeln!(
            out,
            "<text x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{depth}</text>",
            TOP - 8
        );
    }
    for (row, (kind, length)) in rows.iter().enumerate() {
        let y = TOP + CELL[1] * row + CELL[1] / 2 + 4;
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{y}\" text-anchor=\"end\">{} · {length}</text>",
            LEFT - 8,
            kind.name()
        );
    }
    for cell in cells {
        let row = rows.iter().position(|&row| row == (cell.kind, cell.length));
        let column = depths.iter().position(|&depth| depth == cell.depth);
        let x = LEFT + CELL[0] * column.unwrap_or(0);
        let y = TOP + CELL[1] * row.unwrap_or(0);
        draw(&mut out, cell, [x, y]);
    }
    out + "</svg>\n"
}

fn draw(out: &mut String, cell: &Cell, [x, y]: [usize; 2]) {
    let ink = if cell.found > 0.6 { "#fff" } else { "#333" };
    let _ = writeln!(
        out,
        "<g><title>{} · {} tokens · depth {}%: {:.1}%</title><rect x=\"{x}\" y=\"{y}\" width=\"{}\" \
         height=\"{}\" fill=\"{}\"/><text x=\"{}\" y=\"{}\" text-anchor=\"middle\" fill=\"{ink}\">{:.0}</text></g>",
        cell.kind.name(),
        cell.length,
        cell.depth,
        100.0 * cell.found,
        CELL[0] - 2,
        CELL[1] - 2,
        colour(cell.found),
        x + CELL[0] / 2,
        y + CELL[1] / 2 + 4,
        100.0 * cell.found
    );
}

/// From almost white to deep blue, for eyes of every kind.
fn colour(found: f64) -> String {
    let mix = |from: f64, to: f64| (from + (to - from) * found.clamp(0.0, 1.0)).round() as u8;
    format!(
        "#{:02x}{:02x}{:02x}",
        mix(240.0, 8.0),
        mix(244.0, 64.0),
        mix(250.0, 129.0)
    )
}
