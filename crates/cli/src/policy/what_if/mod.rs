//! `resurgam policy what-if` for people: a table, and a drawing.

mod svg;

use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};
use resurgam_core::duration::Human;
use resurgam_policy::printable;
use resurgam_policy::what_if::{ASSUMED, Compared, Sums};
use resurgam_policy::words::number;

use crate::style::{FAINT, STRONG};

pub(crate) use svg::draw;

/// Both for people.
pub(crate) fn text(compared: &Compared) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["", "as recorded", "what if"]);
    for (what, of) in ROWS {
        table.add_row([what.to_string(), of(&compared.recorded), of(&compared.what_if)]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let table = table.trim_fmt();
    let (header, rows) = table.split_once('\n').unwrap_or((&table, ""));
    let assumed = ASSUMED.map(|text| format!("- {text}\n")).concat();
    format!(
        "{STRONG}{} calls of {}{STRONG:#}\n\n{FAINT}{header}{FAINT:#}\n{rows}\n\n\
         {FAINT}Assumed:\n{assumed}{FAINT:#}",
        number(compared.calls as u64),
        printable(&compared.activity)
    )
}

type Row = (&'static str, fn(&Sums) -> String);

const ROWS: [Row; 8] = [
    ("attempts", |sums| number(sums.attempts)),
    ("calls that succeed", |sums| number(sums.succeeded)),
    ("calls that fail", |sums| number(sums.failed)),
    ("calls that go on", |sums| number(sums.open)),
    ("until success, half of them within", |sums| time(sums, sums.success_p50_ms)),
    ("19 of 20 within", |sums| time(sums, sums.success_p95_ms)),
    ("the longest", |sums| time(sums, sums.success_max_ms)),
    ("attempts in the busiest minute", |sums| number(sums.busiest_minute)),
];

fn time(sums: &Sums, millis: u64) -> String {
    match sums.succeeded {
        0 => "never".to_string(),
        _ => Human(Duration::from_millis(millis)).to_string(),
    }
}
