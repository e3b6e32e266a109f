//! Draws what a dependency is asked and how many calls wait, second by second, without a gate and
//! with one.
//!
//! The drawing stands alone (no scripts, no fonts, no links) and follows the reader's choice of a
//! light or dark page.

use std::fmt::Write as _;

use resurgam_policy::simulate::{Second, Told, World};

use super::{Arguments, sentence};

const WIDTH: f64 = 760.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 740.0;
/// The upper and the lower panel: from where to where.
const LOAD: (f64, f64) = (60.0, 240.0);
const WAITING: (f64, f64) = (290.0, 400.0);
const HEIGHT: f64 = 440.0;

const STYLE: &str = "\
  text { font: 12px system-ui, 'Segoe UI', Helvetica, Arial, sans-serif; fill: #1f2328; }
  .page { fill: #ffffff; }
  .title { font-size: 14px; font-weight: 600; }
  .faint { fill: #59636e; }
  .grid { stroke: #d1d9e0; stroke-width: 1; }
  .outage { fill: #cf222e; fill-opacity: 0.10; }
  .line { fill: none; stroke-width: 1.5; }
  .without { stroke: #cf222e; }
  .with { stroke: #0969da; }
  .limit { stroke: #59636e; stroke-width: 1; stroke-dasharray: 5 3; }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc; }
    .page { fill: #0d1117; }
    .faint { fill: #9198a1; }
    .grid { stroke: #3d444d; }
    .without { stroke: #f85149; }
    .with { stroke: #58a6ff; }
    .limit { stroke: #9198a1; }
  }
";

/// Draws what happens.
pub(super) fn draw(arguments: &Arguments, world: &World, told: &[Told]) -> String {
    let seconds = told.iter().map(|told| told.story.seconds.len()).max().unwrap_or(0).max(1);
    let mut page = Page { body: String::new(), seconds };
    let title = sentence(arguments);
    page.text(20.0, 24.0, "title", &title);
    let from = page.x(world.before.as_secs_f64());
    let to = page.x((world.before + world.outage).as_secs_f64());
    for (top, bottom) in [LOAD, WAITING] {
        let (width, height) = (to - from, bottom - top);
        let _ = writeln!(
            page.body,
            r#"<rect x="{from:.1}" y="{top:.1}" width="{width:.1}" height="{height:.1}" class="outage"/>"#
        );
    }
    let which = if told.len() > 1 { "red without a gate, blue with it, " } else { "" };
    let load = format!("requests a second: {which}dashed what can be served");
    page.panel(LOAD, &load, told, |second| second.offered, Some(world.capacity as u64));
    page.panel(WAITING, "calls that wait", told, |second| second.waiting, None);
    page.axis();
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" class=\"page\"/>\n{}</svg>\n",
        page.body
    )
}

struct Page {
    body: String,
    seconds: usize,
}

impl Page {
    fn x(&self, second: f64) -> f64 {
        LEFT + (RIGHT - LEFT) * second / self.seconds as f64
    }

    fn text(&mut self, x: f64, y: f64, class: &str, text: &str) {
        let _ = writeln!(self.body, r#"<text x="{x:.1}" y="{y:.1}" class="{class}">{text}</text>"#);
    }

    fn panel(
        &mut self,
        (top, bottom): (f64, f64),
        title: &str,
        told: &[Told],
        of: fn(&Second) -> u64,
        limit: Option<u64>,
    ) {
        let values = told.iter().flat_map(|told| told.story.seconds.iter().map(of));
        let most = values.chain(limit).max().unwrap_or(0).max(1);
        let y = |value: u64| bottom - (bottom - top) * value as f64 / most as f64;
        self.text(LEFT, top - 8.0, "faint", title);
        for value in [0, most / 2, most] {
            self.rule(y(value), "grid");
            self.text(14.0, y(value) + 4.0, "faint", &value.to_string());
        }
        if let Some(limit) = limit {
            self.rule(y(limit), "limit");
        }
        for told in told {
            let mut points = String::new();
            for (second, seen) in told.story.seconds.iter().enumerate() {
                let _ = write!(points, "{:.1},{:.1} ", self.x(second as f64), y(of(seen)));
            }
            let class = if told.gate { "with" } else { "without" };
            let points = points.trim_end();
            let _ = writeln!(self.body, r#"<polyline points="{points}" class="line {class}"/>"#);
        }
    }

    fn rule(&mut self, at: f64, class: &str) {
        let _ = writeln!(
            self.body,
            r#"<line x1="{LEFT}" y1="{at:.1}" x2="{RIGHT}" y2="{at:.1}" class="{class}"/>"#
        );
    }

    /// The time below both panels, in full minutes where it is long.
    fn axis(&mut self) {
        let step = match self.seconds {
            0..=90 => 10,
            91..=300 => 30,
            301..=900 => 60,
            901..=3_600 => 300,
            seconds => seconds / 8,
        };
        for second in (0..=self.seconds).step_by(step) {
            let x = self.x(second as f64);
            self.text(x - 8.0, WAITING.1 + 20.0, "faint", &format!("{second} s"));
        }
    }
}
