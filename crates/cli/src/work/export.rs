//! `resurgam export`: the history of an instance as a file, for `replay` in tests.

use std::path::PathBuf;

use resurgam::Error;
use resurgam_core::export::Export;

use crate::exit::Exit;
use crate::form::{Form, line};
use crate::operator::{Operator, Reach};
use crate::output::Output;
use crate::policy::complaint::printable;
use crate::trouble::{Mistake, Trouble};

/// Write the history of an instance to a file that tests can replay
///
/// The file has every event in its stored form, arguments and results included.
/// `resurgam_testing::replay` checks it against the code of later days.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The instance
    id: String,
    /// Only this run, from 1; all runs unless given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    run: Option<u32>,
    /// The file; standard output unless given
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    reach: Reach,
    /// Print one JSON value; without --output that is the history
    #[arg(long)]
    pub(super) json: bool,
}

impl Args {
    pub(super) async fn run(self) -> Result<Output, Trouble> {
        let id = &self.id;
        let read = async |operator: &Operator| {
            let found = operator.export(id).await?;
            Ok(found.ok_or_else(|| Error::no_instance(&format!("export {id}")))?)
        };
        let mut export = self.reach.look(read).await?;
        if let Some(run) = self.run {
            let runs: Vec<String> = export.runs.iter().map(|one| one.run.to_string()).collect();
            export.runs.retain(|one| one.run == run);
            if export.runs.is_empty() {
                let message = format!("export run {run} of {id}: there is no such run");
                let hint = match runs.is_empty() {
                    true => "it has not begun yet".to_string(),
                    false => format!("it has {}", runs.join(", ")),
                };
                return Err(Mistake::new(message).hint(hint).into());
            }
        }
        match &self.output {
            None => Ok(Output::done(export.to_json())),
            Some(file) => self.write(&export, file),
        }
    }

    fn write(&self, export: &Export, file: &PathBuf) -> Result<Output, Trouble> {
        let name = file.display().to_string();
        std::fs::write(file, export.to_json()).map_err(|error| {
            let message = format!("write the history of {}: {error}", self.id);
            Trouble::from(Mistake::new(message).in_file(&name))
        })?;
        let events: usize = export.runs.iter().map(|run| run.events.len()).sum();
        if self.json {
            let form = Form::default().with("id", &self.id).with("file", &name);
            let form = form.with("runs", export.runs.len()).with("events", events);
            return Ok(Output::json(line(&form), Exit::Done));
        }
        let (id, name) = (printable(&self.id), printable(&name));
        Ok(Output::done(format!("{events} events of {id} are in {name}\n")))
    }
}
