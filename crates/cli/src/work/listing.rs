//! Lists: one row for each thing, for people or for programs, page by page.

use comfy_table::{CellAlignment, Table, presets};
use resurgam::Timestamp;

use crate::exit::Exit;
use crate::form::{Form, line};
use crate::moment::TimeArgs;
use crate::operator::{Operator, Reach};
use crate::output::Output;
use crate::trouble::Trouble;

/// Something that is listed.
pub(super) trait Listed {
    /// The first column is a number.
    const BEGINS_WITH_NUMBER: bool = false;

    /// The names of the columns.
    fn columns(times: TimeArgs) -> Vec<&'static str>;

    /// Its row.
    fn row(&self, now: Timestamp, times: TimeArgs) -> Vec<String>;

    /// Its form for programs.
    fn form(&self) -> Form;

    /// The place behind it, as `--after` takes it; `None` where a list has no pages.
    fn cursor(&self) -> Option<String> {
        None
    }
}

/// How a list is asked for.
#[derive(Debug)]
pub(super) struct List<'a> {
    pub(super) reach: &'a Reach,
    /// At most so many.
    pub(super) limit: usize,
    pub(super) times: TimeArgs,
    pub(super) json: bool,
    /// What is said where there are none.
    pub(super) none: &'a str,
}

impl List<'_> {
    /// Reads a page and lists it. `read` is told what time it is, and how many to read: one more
    /// than are listed, which tells whether there are more.
    pub(super) async fn page<T: Listed>(
        &self,
        read: impl AsyncFnOnce(&Operator, Timestamp, usize) -> Result<Vec<T>, Trouble>,
    ) -> Result<Output, Trouble> {
        let most = self.limit.saturating_add(1);
        let look = async |operator: &Operator| {
            let now = operator.now();
            Ok((read(operator, now, most).await?, now))
        };
        let (mut found, now) = self.reach.look(look).await?;
        let has_more = found.len() > self.limit;
        found.truncate(self.limit);
        if self.json {
            return Ok(Output::json(line(&forms(&found)), Exit::Done));
        }
        let cursor = found.last().filter(|_| has_more).and_then(Listed::cursor);
        let more = cursor.map(|cursor| {
            format!("there are more: the same with --after {cursor} lists the next ones\n")
        });
        let stdout = table(&found, now, self.times, self.none);
        Ok(Output { stderr: more.unwrap_or_default(), ..Output::done(stdout) })
    }
}

/// All of them for people.
pub(super) fn table<T: Listed>(found: &[T], now: Timestamp, times: TimeArgs, none: &str) -> String {
    if found.is_empty() {
        return format!("{none}\n");
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(T::columns(times));
    table.add_rows(found.iter().map(|it| it.row(now, times)));
    if let Some(column) = table.column_mut(0).filter(|_| T::BEGINS_WITH_NUMBER) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string() + "\n"
}

/// All of them for programs.
pub(super) fn forms<T: Listed>(found: &[T]) -> Vec<Form> {
    found.iter().map(Listed::form).collect()
}
