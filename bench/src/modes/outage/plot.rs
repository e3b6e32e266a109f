//! Draws a drill: what the gateway was asked and what it served, second by second, and below it how
//! many payments waited.
//!
//! The drawing stands alone (no scripts, no fonts, no links) and follows the reader's choice of a
//! light or dark page.

use std::fmt::Write as _;

use super::{Arguments, Second, Story};

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
  .offered { stroke: #cf222e; }
  .served { stroke: #0969da; }
  .waiting { stroke: #9a6700; }
  .limit { stroke: #59636e; stroke-width: 1; stroke-dasharray: 5 3; }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc; }
    .page { fill: #0d1117; }
    .faint { fill: #9198a1; }
    .grid { stroke: #3d444d; }
    .offered { stroke: #f85149; }
    .served { stroke: #58a6ff; }
    .waiting { stroke: #d29922; }
    .limit { stroke: #9198a1; }
  }
";

/// One line in a panel.
struct Line {
    class: &'static str,
    of: fn(&Second) -> u64,
}

/// Draws what happened.
pub(super) fn draw(story: &Story, arguments: &Arguments) -> String {
    let mut page = Page { body: String::new(), seconds: story.seconds.len().max(1) };
    let title = format!(
        "A gateway for {} requests a second is out for {} s, while {:.0} payments a second arrive",
        arguments.capacity,
        arguments.outage().as_secs(),
        arguments.rate()
    );
    page.text(20.0, 24.0, "title", &title);
    let (from, to) = (page.x(story.out), page.x(story.back));
    for (top, bottom) in [LOAD, WAITING] {
        let (width, height) = (to - from, bottom - top);
        let _ = writeln!(
            page.body,
            r#"<rect x="{from:.1}" y="{top:.1}" width="{width:.1}" height="{height:.1}" class="outage"/>"#
        );
    }
    let capacity = Some(u64::from(arguments.capacity));
    let load = [
        Line { class: "offered", of: |second| second.seen.offered },
        Line { class: "served", of: |second| second.seen.served },
    ];
    page.panel(
        LOAD,
        "requests a second: red asked, blue served, dashed what it can serve",
        story,
        &load,
        capacity,
    );
    let waiting = [Line { class: "waiting", of: |second| second.waiting }];
    page.panel(WAITING, "payments that wait", story, &waiting, None);
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
    fn x(&self, second: usize) -> f64 {
        LEFT + (RIGHT - LEFT) * second as f64 / self.seconds as f64
    }

    fn text(&mut self, x: f64, y: f64, class: &str, text: &str) {
        let _ = writeln!(self.body, r#"<text x="{x:.1}" y="{y:.1}" class="{class}">{text}</text>"#);
    }

    fn panel(
        &mut self,
        (top, bottom): (f64, f64),
        title: &str,
        story: &Story,
        lines: &[Line],
        limit: Option<u64>,
    ) {
        let values = lines.iter().flat_map(|line| story.seconds.iter().map(line.of));
        let most = values.chain(limit).max().unwrap_or(0).max(1);
        let y = |value: u64| bottom - (bottom - top) * value as f64 / most as f64;
        self.text(LEFT, top - 8.0, "faint", title);
        for value in [0, most / 2, most] {
            let at = y(value);
            let _ = writeln!(
                self.body,
                r#"<line x1="{LEFT}" y1="{at:.1}" x2="{RIGHT}" y2="{at:.1}" class="grid"/>"#
            );
            self.text(14.0, at + 4.0, "faint", &value.to_string());
        }
        if let Some(limit) = limit {
            let at = y(limit);
            let _ = writeln!(
                self.body,
                r#"<line x1="{LEFT}" y1="{at:.1}" x2="{RIGHT}" y2="{at:.1}" class="limit"/>"#
            );
        }
        for Line { class, of } in lines {
            let mut points = String::new();
            for (second, seen) in story.seconds.iter().enumerate() {
                let _ = write!(points, "{:.1},{:.1} ", self.x(second), y(of(seen)));
            }
            let points = points.trim_end();
            let _ = writeln!(self.body, r#"<polyline points="{points}" class="line {class}"/>"#);
        }
    }

    /// The time below both panels, in full minutes where it is long.
    fn axis(&mut self) {
        let step = match self.seconds {
            0..=90 => 10,
            91..=300 => 30,
            301..=900 => 60,
            _ => 300,
        };
        for second in (0..=self.seconds).step_by(step) {
            let x = self.x(second);
            self.text(x - 8.0, WAITING.1 + 20.0, "faint", &format!("{second} s"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modes::outage::gateway::Seen;
    use clap::Parser;
    use resurgam_watchdog::test;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        arguments: Arguments,
    }

    #[test]
    fn what_happened_is_drawn_to_scale() {
        let arguments = ["outage", "--store", "sqlite:x.db", "--capacity", "100", "--calls", "134"];
        let Command { arguments } = Command::parse_from(arguments);
        let second = |offered, served, waiting| Second {
            seen: Seen { offered, served, ..Seen::default() },
            waiting,
        };
        let seconds = vec![second(66, 66, 1), second(200, 0, 60), second(100, 100, 20)];
        let (out, back, drained) = (1, 2, Some(3));
        let story = Story { seconds, out, back, drained, ..Story::default() };
        let drawn = draw(&story, &arguments);
        assert!(
            drawn.contains(
                r#"<polyline points="70.0,180.6 293.3,60.0 516.7,150.0" class="line offered"/>"#
            ),
            "{drawn}"
        );
        assert!(
            drawn.contains(
                r#"<polyline points="70.0,398.2 293.3,290.0 516.7,363.3" class="line waiting"/>"#
            ),
            "{drawn}"
        );
    }
}
