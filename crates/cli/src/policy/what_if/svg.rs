//! Draws how many attempts begin in each minute, as recorded and under another policy.
//!
//! The drawing stands alone (no scripts, no fonts, no links) and follows the reader's choice of a
//! light or dark page.

use std::fmt::Write as _;

use resurgam_policy::printable;
use resurgam_policy::what_if::{Compared, Sums};

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 740.0;
const TOP: f64 = 60.0;
const BOTTOM: f64 = 250.0;

/// More minutes than this are drawn together.
const POINTS: i64 = 600;

const STYLE: &str = "\
  text { font: 12px system-ui, 'Segoe UI', Helvetica, Arial, sans-serif; fill: #1f2328; }
  .page { fill: #ffffff; }
  .title { font-size: 14px; font-weight: 600; }
  .faint { fill: #59636e; }
  .grid { stroke: #d1d9e0; stroke-width: 1; }
  .line { fill: none; stroke-width: 1.5; }
  .recorded { stroke: #cf222e; }
  .what-if { stroke: #0969da; }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc; }
    .page { fill: #0d1117; }
    .faint { fill: #9198a1; }
    .grid { stroke: #3d444d; }
    .recorded { stroke: #f85149; }
    .what-if { stroke: #58a6ff; }
  }
";

/// Draws both.
pub(crate) fn draw(compared: &Compared) -> String {
    let both = [(&compared.recorded, "recorded"), (&compared.what_if, "what-if")];
    let minutes = || both.iter().flat_map(|(sums, _)| sums.per_minute.keys().copied());
    let first = minutes().min().unwrap_or(0);
    let last = minutes().max().unwrap_or(first);
    let step = (last - first) / POINTS + 1;
    let lines = both.map(|(sums, class)| (of_steps(sums, first, last, step), class));
    let most = lines.iter().flat_map(|(line, _)| line.iter().copied()).max().unwrap_or(0).max(1);
    let count = lines[0].0.len().max(2) - 1;
    let y = |value: u64| BOTTOM - (BOTTOM - TOP) * value as f64 / most as f64;
    let activity = printable(&compared.activity).replace('&', "&amp;").replace('<', "&lt;");
    let title = format!("Attempts of {activity}");
    let mut body = String::new();
    let each = if step == 1 { "a minute".to_string() } else { format!("{step} minutes") };
    let _ = writeln!(body, r#"<text x="20" y="24" class="title">{title}</text>"#);
    let what = format!("begun in {each}: red as recorded, blue under the other policy");
    let _ = writeln!(body, r#"<text x="{LEFT}" y="48" class="faint">{what}</text>"#);
    for value in [0, most / 2, most] {
        let at = y(value);
        let _ = writeln!(
            body,
            r#"<line x1="{LEFT}" y1="{at:.1}" x2="{RIGHT}" y2="{at:.1}" class="grid"/>"#
        );
        let _ = writeln!(body, r#"<text x="14" y="{:.1}" class="faint">{value}</text>"#, at + 4.0);
    }
    for (line, class) in &lines {
        let mut points = String::new();
        for (place, value) in line.iter().enumerate() {
            let x = LEFT + (RIGHT - LEFT) * place as f64 / count as f64;
            let _ = write!(points, "{x:.1},{:.1} ", y(*value));
        }
        let points = points.trim_end();
        let _ = writeln!(body, r#"<polyline points="{points}" class="line {class}"/>"#);
    }
    let length = format!("{} minutes", last - first + 1);
    let _ = writeln!(
        body,
        r#"<text x="{LEFT}" y="{:.1}" class="faint">over {length}</text>"#,
        BOTTOM + 24.0
    );
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" class=\"page\"/>\n{body}</svg>\n"
    )
}

/// How many began in each step of so many minutes.
fn of_steps(sums: &Sums, first: i64, last: i64, step: i64) -> Vec<u64> {
    let mut line = vec![0; usize::try_from((last - first) / step + 1).unwrap_or(1)];
    for (minute, count) in &sums.per_minute {
        let place = usize::try_from((minute - first) / step).unwrap_or_default();
        if let Some(value) = line.get_mut(place) {
            *value += count;
        }
    }
    line
}
