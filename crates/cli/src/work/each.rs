//! `resurgam start --each`: an instance for each line of a file.
//!
//! Lines are read as they are wanted, so a file of any length takes the memory of a few lines; a
//! thread of its own reads them, because whoever writes to standard input may be slow. The same
//! file again starts nothing twice: the ids are those of the first time, and an instance that is
//! there and was started with the same is not an error.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::run::Wanted;
use super::warn;
use crate::exit::Exit;
use crate::form::{Form, line};
use crate::operator::Operator;
use crate::output::Output;
use crate::program::{Argument, Source, Text, Texts};
use crate::signals::Signals;
use crate::trouble::{Mistake, Trouble};

/// How many starts are on their way at once: they share commits.
const AT_ONCE: usize = 64;

/// How many lines are read ahead.
const AHEAD: usize = 4;

/// The longest line. What an instance is started with must fit into half of that.
const LONGEST: usize = 4 << 20;

/// The most mistakes that are told in JSON.
const TOLD: usize = 1_000;

/// An instance for each line of a file.
pub(super) struct Each {
    pub(super) source: Source,
    /// The file of lines, or `-`.
    pub(super) lines: PathBuf,
    /// What ids of lines without one begin with.
    pub(super) prefix: Option<String>,
    /// The store of lines without one.
    pub(super) store: Option<Text>,
    pub(super) queue: Option<String>,
    pub(super) json: bool,
}

/// What a line says.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    id: Option<String>,
    input: Option<Box<RawValue>>,
    store: Option<Box<RawValue>>,
}

/// A line of the file, from 1, or why it cannot be read.
type Read = (usize, Result<String, Trouble>);

/// What became of the lines so far.
#[derive(Default)]
struct Tally {
    started: u64,
    there: u64,
    refused: u64,
    told: Vec<Mistake>,
    has_warned: bool,
}

impl Each {
    /// The file as it is called in messages.
    fn name(&self) -> String {
        match self.is_stdin() {
            true => "standard input".to_string(),
            false => self.lines.display().to_string(),
        }
    }

    fn is_stdin(&self) -> bool {
        self.lines == Path::new("-")
    }

    /// Opens the file, before anything is stored.
    pub(super) fn open(&self) -> Result<Box<dyn BufRead + Send>, Trouble> {
        if self.is_stdin() {
            return Ok(Box::new(BufReader::new(io::stdin())));
        }
        match File::open(&self.lines) {
            Ok(file) => Ok(Box::new(BufReader::new(file))),
            Err(error) => {
                let mistake = Mistake::new(format!("--each: read the file: {error}"));
                Err(mistake.in_file(&self.name()).into())
            }
        }
    }

    /// Starts what the lines say.
    pub(super) async fn start(
        self,
        operator: &Operator,
        from: Box<dyn BufRead + Send>,
    ) -> Result<Output, Trouble> {
        let mut signals = Signals::new()?;
        let (send, mut lines) = mpsc::channel(AHEAD);
        tokio::task::spawn_blocking(move || read(from, &send));
        let (mut starting, mut tally) = (JoinSet::new(), Tally::default());
        let (mut is_open, mut is_interrupted) = (true, false);
        while is_open || !starting.is_empty() {
            tokio::select! {
                biased;
                Some(ended) = starting.join_next() => {
                    let (number, ended) = ended.map_err(io::Error::other)?;
                    self.take(&mut tally, number, ended)?;
                }
                read = lines.recv(), if is_open && starting.len() < AT_ONCE => {
                    let Some((number, text)) = read else {
                        is_open = false;
                        continue;
                    };
                    match text.and_then(|text| self.wanted(&mut tally, number, &text)) {
                        Ok(None) => {}
                        Ok(Some(wanted)) => {
                            starting.spawn(start(operator.clone(), number, wanted));
                        }
                        Err(trouble) => self.take(&mut tally, number, Err(trouble))?,
                    }
                }
                () = signals.wait() => {
                    // What is on its way is counted, unless somebody insists.
                    if is_interrupted {
                        break;
                    }
                    (is_open, is_interrupted) = (false, true);
                }
            }
        }
        let exit = match tally.refused {
            _ if is_interrupted => Exit::Stopped,
            0 => Exit::Done,
            _ => Exit::BadInput,
        };
        Ok(self.output(tally, exit))
    }

    /// The instance of a line; none for a line with nothing in it.
    fn wanted(
        &self,
        tally: &mut Tally,
        number: usize,
        text: &str,
    ) -> Result<Option<Wanted>, Trouble> {
        if text.trim().is_empty() {
            return Ok(None);
        }
        let form = "write an object with input, and with id unless the line's number will do: \
                    {\"id\": \"order-1\", \"input\": {\"order\": 1}}";
        let line: Line = serde_json::from_str(text).map_err(|error| {
            // It counts lines from this one.
            let what = error.to_string().replace(" at line 1 column ", " at column ");
            Mistake::new(format!("this is no start: {what}")).hint(form)
        })?;
        let id = match (line.id, &self.prefix) {
            (Some(id), _) if id.is_empty() => {
                return Err(Trouble::refused("id: an empty id is not allowed"));
            }
            (Some(id), _) => id,
            (None, Some(prefix)) => format!("{prefix}-{number}"),
            (None, None) => {
                let message = "it has no id, and standard input has no name to make one from";
                return Err(Mistake::new(message).hint("--id PREFIX makes PREFIX-1, ..").into());
            }
        };
        let given = |place: &str, json: Box<RawValue>| Text {
            place: place.to_string(),
            json: json.get().to_string(),
        };
        let store = line.store.map(|json| given("store", json)).or_else(|| self.store.clone());
        let texts = Texts { input: line.input.map(|json| given("input", json)), store };
        let Argument { payload: argument, warnings } = texts.argument(&self.source)?;
        // What is odd about one line is odd about most: one that says so will do.
        if !warnings.is_empty() && !std::mem::replace(&mut tally.has_warned, true) {
            let warning = |what| format!("line {number}: {what}");
            warn(&warnings.into_iter().map(warning).collect::<Vec<_>>());
        }
        let (workflow, queue) = (self.source.workflow(), self.queue.clone());
        Ok(Some(Wanted { id, workflow, argument, queue }))
    }

    /// Counts what became of a line. The error is one for which all further lines would fail too.
    fn take(
        &self,
        tally: &mut Tally,
        number: usize,
        ended: Result<bool, Trouble>,
    ) -> Result<(), Trouble> {
        match ended {
            Ok(false) => tally.started += 1,
            Ok(true) => tally.there += 1,
            Err(Trouble::Refused(mistakes)) => {
                tally.refused += 1;
                for mut mistake in mistakes {
                    (mistake.file, mistake.line) = (Some(self.name()), Some(number));
                    self.tell(tally, mistake);
                }
            }
            Err(Trouble::Failed(mut mistake)) => {
                (mistake.file, mistake.line) = (Some(self.name()), Some(number));
                mistake.message = format!("{}; {} so far", mistake.message, tally.counts());
                mistake.hint = Some("the same again goes on, and starts nothing twice".to_string());
                return Err(Trouble::Failed(mistake));
            }
        }
        Ok(())
    }

    /// People hear of a mistake when it is found, programs at the end.
    fn tell(&self, tally: &mut Tally, mistake: Mistake) {
        if !self.json {
            let text = Trouble::from(mistake).output(false).stderr;
            // Nobody reads standard error: then nobody wants to know.
            let _ = anstream::stderr().write_all(text.as_bytes());
        } else if tally.told.len() < TOLD {
            tally.told.push(mistake);
        }
    }

    fn output(&self, tally: Tally, exit: Exit) -> Output {
        let counts = tally.counts();
        if self.json {
            let form = Form::default().with("started", tally.started).with("there", tally.there);
            let form = form.with("refused", tally.refused).with("errors", tally.told);
            return Output::json(line(&form), exit);
        }
        let stderr = match exit {
            Exit::Stopped => "interrupted; the same again goes on, and starts nothing twice\n",
            _ => "",
        };
        Output { stdout: counts + "\n", stderr: stderr.to_string(), exit }
    }
}

impl Tally {
    fn counts(&self) -> String {
        let Tally { started, there, refused, .. } = self;
        format!("{started} started, {there} there already, {refused} refused")
    }
}

/// Starts the instance of a line, or finds the one that was started so before. True when it was
/// there.
async fn start(
    operator: Operator,
    number: usize,
    wanted: Wanted,
) -> (usize, Result<bool, Trouble>) {
    (number, start_or_find(&operator, &wanted).await)
}

async fn start_or_find(operator: &Operator, wanted: &Wanted) -> Result<bool, Trouble> {
    let error = match wanted.start(operator).await {
        Ok(()) => return Ok(false),
        Err(error) if error.is_already_exists() => error,
        Err(error) => return Err(error.into()),
    };
    match operator.find_whole(&wanted.id).await? {
        Some(row) => wanted.is_same(operator, &row).map(|()| true),
        // It was deleted in between.
        None => Err(error.into()),
    }
}

/// Reads lines until there are no more, or nobody wants them.
fn read(mut from: Box<dyn BufRead + Send>, lines: &mpsc::Sender<Read>) {
    for number in 1.. {
        let read = match next_line(&mut *from) {
            Ok(None) => return,
            Ok(Some(line)) => Ok(line),
            Err(NoLine::Refused(what)) => Err(Trouble::refused(what)),
            Err(NoLine::Failed(error)) => Err(Trouble::failed(format!("read a line: {error}"))),
        };
        let is_over = matches!(read, Err(Trouble::Failed(_)));
        if lines.blocking_send((number, read)).is_err() || is_over {
            return;
        }
    }
}

/// Why a line cannot be read.
enum NoLine {
    /// It is wrong; the next one may be right.
    Refused(String),
    Failed(io::Error),
}

/// The next line. One that is too long is stepped over and never held as a whole.
fn next_line(from: &mut dyn BufRead) -> Result<Option<String>, NoLine> {
    let (mut line, mut is_any, mut is_long) = (Vec::new(), false, false);
    loop {
        let found = match from.fill_buf() {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(NoLine::Failed(error)),
        };
        if found.is_empty() {
            break;
        }
        is_any = true;
        let end = found.iter().position(|byte| *byte == b'\n');
        let piece = &found[..end.unwrap_or(found.len())];
        is_long |= line.len() + piece.len() > LONGEST;
        if !is_long {
            line.extend_from_slice(piece);
        }
        let used = piece.len() + usize::from(end.is_some());
        from.consume(used);
        if end.is_some() {
            break;
        }
    }
    if is_long {
        let most = LONGEST >> 20;
        return Err(NoLine::Refused(format!("the line is longer than {most} MiB")));
    }
    let text = String::from_utf8(line);
    let text = text.map_err(|_| NoLine::Refused("the line is not UTF-8".to_string()))?;
    Ok(is_any.then_some(text))
}

/// What ids begin with that are made from numbers of lines: the name of the file, without its
/// ending.
pub(super) fn prefix(lines: &Path) -> Option<String> {
    let stem = lines.file_stem().filter(|_| lines != Path::new("-"))?;
    Some(stem.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    fn lines(mut bytes: &[u8]) -> Vec<String> {
        let mut found = Vec::new();
        loop {
            match next_line(&mut bytes) {
                Ok(None) => return found,
                Ok(Some(line)) => found.push(line),
                Err(NoLine::Refused(what)) => found.push(format!("<{what}>")),
                Err(NoLine::Failed(error)) => panic!("{error}"),
            }
        }
    }

    #[test]
    fn a_line_that_is_too_long_or_no_text_is_stepped_over() {
        assert_eq!(lines(b""), [""; 0]);
        assert_eq!(lines(b"a\n\nb"), ["a", "", "b"]);
        assert_eq!(lines(b"a\n"), ["a"]);
        let long = [b"a\n", &vec![b'x'; LONGEST + 1][..], b"\nb\n\xff\nc"].concat();
        let refused = ["<the line is longer than 4 MiB>", "<the line is not UTF-8>"];
        assert_eq!(lines(&long), ["a", refused[0], "b", refused[1], "c"]);
        assert_eq!(lines(&vec![b'x'; LONGEST])[0].len(), LONGEST);
    }
}
