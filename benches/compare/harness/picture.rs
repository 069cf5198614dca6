//! The picture: latency against CPU, both on logarithmic axes, a panel for each cell.
//!
//! A *mark* stands at a contender's p50 and CPU per completion; a thin line leads up to its p99.
//! What always holds: marks and labels lie inside their panel, and no two labels on each other as
//! long as there is room.

use std::fmt::Write;

use super::record::{Record, Row};

const PANEL: (f64, f64) = (560.0, 420.0);
/// Left, top, right and bottom of what is drawn in.
const MARGIN: (f64, f64, f64, f64) = (64.0, 40.0, 18.0, 52.0);
const FONT: f64 = 11.0;
/// The mean width of a letter at that size, not too narrow for any usual font.
const LETTER: f64 = 6.4;
const MARK: f64 = 4.5;

/// Distances of labels from their marks that are tried, and directions.
const REACH: [f64; 8] = [8.0, 14.0, 22.0, 32.0, 44.0, 58.0, 76.0, 98.0];
const TURNS: u32 = 16;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Place {
    x: f64,
    y: f64,
}

/// A rectangle, from its upper left corner.
#[derive(Clone, Copy, Debug)]
struct Area {
    at: Place,
    width: f64,
    height: f64,
}

impl Area {
    fn meets(&self, other: &Area) -> bool {
        let (a, b) = (self.at, other.at);
        a.x < b.x + other.width
            && b.x < a.x + self.width
            && a.y < b.y + other.height
            && b.y < a.y + self.height
    }

    fn holds(&self, other: &Area) -> bool {
        let (a, b) = (self.at, other.at);
        a.x <= b.x
            && a.y <= b.y
            && b.x + other.width <= a.x + self.width
            && b.y + other.height <= a.y + self.height
    }
}

/// A logarithmic axis of microseconds.
#[derive(Clone, Copy, Debug)]
struct Axis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    /// Over these values, with some room, drawn between two coordinates.
    fn over(values: impl Iterator<Item = f64> + Clone, from: f64, to: f64) -> Axis {
        let least = values.clone().fold(f64::INFINITY, f64::min).max(0.001);
        let most = values.fold(0.0, f64::max).max(least);
        Axis { low: (least / 1.8).log10(), high: (most * 1.8).log10(), from, to }
    }

    fn at(&self, value: f64) -> f64 {
        let share = (value.max(0.001).log10() - self.low) / (self.high - self.low);
        self.from + share * (self.to - self.from)
    }

    /// Where there are lines: at 1, 2 and 5 of every decade, or where that is many at 1 alone.
    fn ticks(&self) -> Vec<f64> {
        let steps: &[f64] = if self.high - self.low > 2.5 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let decades = self.low.floor() as i32..=self.high.ceil() as i32;
        let all = decades.flat_map(|decade| steps.iter().map(move |s| s * 10f64.powi(decade)));
        all.filter(|tick| (self.low..=self.high).contains(&tick.log10())).collect()
    }
}

/// The picture as SVG.
pub fn of(record: &Record) -> String {
    let cells = cells(&record.rows);
    let columns = columns(&cells);
    let rows = cells.len().div_ceil(columns.max(1));
    let (width, height) = (PANEL.0 * columns as f64, PANEL.1 * rows as f64 + 60.0);
    let mut svg = String::new();
    let _ = writeln!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"DejaVu Sans, Verdana, sans-serif\" \
         font-size=\"{FONT}\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>"
    );
    head(&mut svg, record);
    for (at, cell) in cells.iter().enumerate() {
        let (column, row) = (at % columns, at / columns);
        let corner = Place { x: column as f64 * PANEL.0, y: 60.0 + row as f64 * PANEL.1 };
        panel(&mut svg, cell, corner);
    }
    svg.push_str("</svg>\n");
    svg
}

fn head(svg: &mut String, record: &Record) {
    let header = &record.header;
    let machine = escaped(&format!("{}, Linux {}", header.cpu, header.kernel));
    let _ = writeln!(
        svg,
        "<text x=\"16\" y=\"22\" font-size=\"15\" font-weight=\"bold\">Wake latency against CPU \
         burnt</text>\n<text x=\"16\" y=\"42\" fill=\"#444\">mark: p50, line up to p99; lower and \
         further left is better. {machine}</text>"
    );
    let mut x = 330.0;
    for (text, name) in [
        ("parkd", "parkd-futex"),
        ("silent store, no daemon", "spin"),
        ("cooperating producer", "futex-cooperating"),
    ] {
        mark(svg, name, Place { x, y: 18.0 });
        let _ = writeln!(svg, "<text x=\"{}\" y=\"22\">{text}</text>", x + 10.0);
        x += 30.0 + text.len() as f64 * LETTER;
    }
}

/// The rows of each cell.
fn cells(rows: &[Row]) -> Vec<Vec<&Row>> {
    let key = |row: &Row| (row.workload.clone(), row.work_us, row.waiters, row.processes);
    let mut cells: Vec<Vec<&Row>> = Vec::new();
    for row in rows {
        match cells.last_mut() {
            Some(cell) if key(cell[0]) == key(row) => cell.push(row),
            _ => cells.push(vec![row]),
        }
    }
    cells
}

/// As many as the first workload has cells.
fn columns(cells: &[Vec<&Row>]) -> usize {
    let Some(first) = cells.first() else { return 1 };
    let same = |cell: &&Vec<&Row>| {
        cell[0].workload == first[0].workload && cell[0].work_us == first[0].work_us
    };
    cells.iter().take_while(same).count()
}

fn us(ns: f64) -> f64 {
    ns / 1000.0
}

fn panel(svg: &mut String, cell: &[&Row], corner: Place) {
    let (left, top, right, bottom) = MARGIN;
    let inner = Area {
        at: Place { x: corner.x + left, y: corner.y + top },
        width: PANEL.0 - left - right,
        height: PANEL.1 - top - bottom,
    };
    let cpu = cell.iter().map(|row| us(row.cpu_ns_per_completion));
    let wakes =
        cell.iter().flat_map(|row| [us(row.wake_ns.p50 as f64), us(row.wake_ns.p99 as f64)]);
    let x = Axis::over(cpu, inner.at.x, inner.at.x + inner.width);
    let y = Axis::over(wakes, inner.at.y + inner.height, inner.at.y);
    frame(svg, cell[0], &inner, &x, &y);
    let place = |row: &Row| Place {
        x: x.at(us(row.cpu_ns_per_completion)),
        y: y.at(us(row.wake_ns.p50 as f64)),
    };
    for row in cell {
        let (at, p99) = (place(row), y.at(us(row.wake_ns.p99 as f64)));
        let _ = writeln!(
            svg,
            "<line x1=\"{0:.1}\" y1=\"{1:.1}\" x2=\"{0:.1}\" y2=\"{p99:.1}\" stroke=\"{2}\" \
             stroke-opacity=\"0.35\"/>",
            at.x,
            at.y,
            colour(&row.contender)
        );
    }
    let named: Vec<(Place, &str)> =
        cell.iter().map(|row| (place(row), row.contender.as_str())).collect();
    labels(svg, &named, &inner);
    for (at, name) in named {
        mark(svg, name, at);
    }
}

fn frame(svg: &mut String, row: &Row, inner: &Area, x: &Axis, y: &Axis) {
    let (left, top) = (inner.at.x, inner.at.y);
    let (right, bottom) = (left + inner.width, top + inner.height);
    let plural = |count: u32, one: &str, more: &str| match count {
        1 => format!("1 {one}"),
        count => format!("{count} {more}"),
    };
    let title = format!(
        "{}, {} us: {} in {}",
        row.workload,
        row.work_us,
        plural(row.waiters, "waiter", "waiters"),
        plural(row.processes, "process", "processes"),
    );
    let _ = writeln!(
        svg,
        "<text x=\"{left}\" y=\"{}\" font-weight=\"bold\" font-size=\"13\">{title}</text>\n\
         <rect x=\"{left}\" y=\"{top}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#888\"/>",
        top - 10.0,
        inner.width,
        inner.height
    );
    for tick in x.ticks() {
        let at = x.at(tick);
        let _ = writeln!(
            svg,
            "<line x1=\"{at:.1}\" y1=\"{top}\" x2=\"{at:.1}\" y2=\"{bottom}\" stroke=\"#e4e4e4\"/>\
             <text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{tick}</text>",
            bottom + 16.0
        );
    }
    for tick in y.ticks() {
        let at = y.at(tick);
        let _ = writeln!(
            svg,
            "<line x1=\"{left}\" y1=\"{at:.1}\" x2=\"{right}\" y2=\"{at:.1}\" stroke=\"#e4e4e4\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{tick}</text>",
            left - 6.0,
            at + 4.0
        );
    }
    let (middle, centre) = (left + inner.width / 2.0, top + inner.height / 2.0);
    let aside = left - 46.0;
    let _ = writeln!(
        svg,
        "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">CPU burnt per completion, us</text>\n\
         <text x=\"{aside}\" y=\"{centre}\" text-anchor=\"middle\" \
         transform=\"rotate(-90 {aside} {centre})\">wake latency, us</text>",
        bottom + 36.0
    );
}

/// Writes each name beside its mark, where nothing else is; a line leads to one further off.
fn labels(svg: &mut String, named: &[(Place, &str)], inner: &Area) {
    let around = |at: &Place| Area {
        at: Place { x: at.x - MARK, y: at.y - MARK },
        width: 2.0 * MARK,
        height: 2.0 * MARK,
    };
    let mut taken: Vec<Area> = named.iter().map(|(at, _)| around(at)).collect();
    for (at, name) in named {
        let Some((reach, area)) = free(*at, name, inner, &taken) else { continue };
        taken.push(area);
        let colour = colour(name);
        if reach > REACH[1] {
            let near = Place {
                x: at.x.clamp(area.at.x, area.at.x + area.width),
                y: at.y.clamp(area.at.y, area.at.y + area.height),
            };
            let _ = writeln!(
                svg,
                "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\" \
                 stroke-width=\"0.6\" stroke-dasharray=\"2 2\"/>",
                at.x, at.y, near.x, near.y
            );
        }
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"{colour}\">{}</text>",
            area.at.x,
            area.at.y + FONT,
            escaped(name)
        );
    }
}

/// Where a name can stand: the nearest free place, and how far off it is.
fn free(at: Place, name: &str, inner: &Area, taken: &[Area]) -> Option<(f64, Area)> {
    let (width, height) = (name.chars().count() as f64 * LETTER, FONT + 3.0);
    for reach in REACH {
        for turn in 0..TURNS {
            let angle = f64::from(turn) * std::f64::consts::TAU / f64::from(TURNS);
            let (x, y) = (at.x + reach * angle.cos(), at.y + reach * angle.sin());
            // The label's side that faces the mark is at that point.
            let share = (1.0 - angle.cos()) / 2.0;
            let corner = Place { x: x - width * share, y: y - height * (1.0 - angle.sin()) / 2.0 };
            let area = Area { at: corner, width, height };
            if inner.holds(&area) && !taken.iter().any(|other| other.meets(&area)) {
                return Some((reach, area));
            }
        }
    }
    None
}

fn colour(contender: &str) -> &'static str {
    match contender {
        parkd if parkd.starts_with("parkd") => "#0a58a8",
        cooperating if cooperating.contains("cooperating") => "#2f7d32",
        _ => "#c2500a",
    }
}

fn mark(svg: &mut String, contender: &str, at: Place) {
    let (Place { x, y }, colour, half) = (at, colour(contender), MARK);
    let _ = match contender {
        parkd if parkd.starts_with("parkd") => {
            writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{half}\" fill=\"{colour}\"/>")
        }
        cooperating if cooperating.contains("cooperating") => writeln!(
            svg,
            "<path d=\"M{x:.1} {:.1}l{half} {1}h-{1}z\" fill=\"{colour}\"/>",
            y - half,
            2.0 * half
        ),
        _ => writeln!(
            svg,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{2}\" height=\"{2}\" fill=\"{colour}\"/>",
            x - half,
            y - half,
            2.0 * half
        ),
    };
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
