//! The history of an instance as a file: JSON, every event in its stored form.
//!
//! It is for people who keep a history beside their code, to have tomorrow's code replay it, and
//! for those who look into a run away from its database. The form is a promise: it has a version,
//! fields are added and never change their meaning, and unknown ones are ignored. Attempts are not
//! in it: replay does not need them, and what became of them stands in the events that ended their
//! calls.
//!
//! ```json
//! {"format":"resurgam-history","version":1,"encoding":"json",
//! "instance":"greet-1","uid":"00000000000000000000000000000007",
//! "runs":[
//! {"run":1,"events":[
//! {"seq":1,"at":1767225600000,"kind":"RunStarted","head":{"name":"greet","seed":1},"body":{}},
//! {"seq":2,"at":1767225600000,"kind":"RunCompleted","head":{},"body":"hello"}
//! ]}
//! ]}
//! ```
//!
//! One event is one line, so that a difference between two files reads like one between histories.
//! `at` is in milliseconds since the Unix epoch. `head` is the engine's part of an event and `body`
//! the user's, just as the store has them; an event without a user's part has no `body`.

use std::fmt::Write;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{Event, EventKind, Payload, Seq, Timestamp, Uid};

/// What the file says it is.
const FORMAT: &str = "resurgam-history";

/// The version of the form that this writes, and the newest that it reads.
const VERSION: u32 = 1;

/// The history of an instance.
///
/// ```
/// use resurgam_core::event::{Event, EventKind, RunStarted};
/// use resurgam_core::export::{Export, ExportedRun};
/// use resurgam_core::{Payload, Seq, Timestamp, Uid};
///
/// let kind = EventKind::RunStarted(RunStarted::new("greet", Payload::null(), 1));
/// let events = vec![Event { seq: Seq(1), at: Timestamp::EPOCH, kind }];
/// let runs = vec![ExportedRun { run: 1, events }];
/// let export = Export { instance: "greet-1".to_string(), uid: Uid(7), runs };
/// assert_eq!(Export::from_json(&export.to_json()).unwrap(), export);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Export {
    /// The id of the instance.
    pub instance: String,
    /// What identifies the start of it.
    pub uid: Uid,
    /// Its runs, the first one first.
    pub runs: Vec<ExportedRun>,
}

/// One run of an instance.
#[derive(Clone, Debug, PartialEq)]
pub struct ExportedRun {
    /// Which one, from 1.
    pub run: u32,
    /// What happened.
    pub events: Vec<Event>,
}

#[derive(Deserialize)]
struct FileForm {
    format: String,
    version: u32,
    encoding: String,
    instance: String,
    uid: String,
    runs: Vec<RunForm>,
}

#[derive(Deserialize)]
struct RunForm {
    run: u32,
    events: Vec<EventForm>,
}

#[derive(Serialize, Deserialize)]
struct EventForm {
    seq: Seq,
    at: Timestamp,
    kind: String,
    head: Box<RawValue>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    body: Option<Box<RawValue>>,
}

/// A body of `null` is a body.
fn present<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(from).map(Some)
}

impl Export {
    /// The file.
    pub fn to_json(&self) -> String {
        let (instance, uid) = (text(&self.instance), text(&self.uid.to_string()));
        let encoding = text(Payload::ENCODING);
        let mut json = format!(
            "{{\"format\":\"{FORMAT}\",\"version\":{VERSION},\"encoding\":{encoding},\n\
             \"instance\":{instance},\"uid\":{uid},\n\"runs\":[\n"
        );
        let runs = self.runs.iter().map(|ExportedRun { run, events }| {
            let events: Vec<String> = events.iter().map(line).collect();
            format!("{{\"run\":{run},\"events\":[\n{}\n]}}", events.join(",\n"))
        });
        let _infallible = write!(json, "{}\n]}}\n", runs.collect::<Vec<_>>().join(",\n"));
        json
    }

    /// Reads a file. The error says what cannot be read, and where.
    pub fn from_json(json: &str) -> Result<Self, String> {
        let form: FileForm =
            serde_json::from_str(json).map_err(|error| format!("read a history: {error}"))?;
        let FileForm { format, version, encoding, instance, uid, runs } = form;
        if format != FORMAT {
            return Err(format!("read a history: this is a file of format {format:?}"));
        }
        if version > VERSION || encoding != Payload::ENCODING {
            return Err(format!(
                "read the history of {instance}: version {version} with encoding {encoding:?} is \
                 newer than this one, which reads version {VERSION} with {:?}",
                Payload::ENCODING
            ));
        }
        let bad_uid = |error| format!("read the history of {instance}: the uid {uid:?}: {error}");
        let uid = Uid(u128::from_str_radix(&uid, 16).map_err(bad_uid)?);
        let mut read = Vec::new();
        for run in runs {
            let what = format!("read run {} of {instance}", run.run);
            read.push(run.read().map_err(|error| format!("{what}: {error}"))?);
        }
        Ok(Export { instance, uid, runs: read })
    }
}

impl RunForm {
    fn read(self) -> Result<ExportedRun, String> {
        let mut events: Vec<Event> = Vec::new();
        for EventForm { seq, at, kind, head, body } in self.events {
            let place = events.len() as u64 + 1;
            if seq.0 != place {
                return Err(format!("event {seq} stands where event {place} belongs"));
            }
            let body = body.map(|body| Payload::from_text(body.get()));
            let kind = EventKind::from_stored(&kind, head.get(), body)
                .map_err(|error| format!("event {seq}: {error}"))?;
            events.push(Event { seq, at, kind });
        }
        match events.first().map(|event| &event.kind) {
            Some(EventKind::RunStarted(_)) | None => Ok(ExportedRun { run: self.run, events }),
            Some(other) => Err(format!("it begins with {} and not RunStarted", other.name())),
        }
    }
}

fn line(event: &Event) -> String {
    let stored = event.kind.to_stored();
    let raw = |json: &str| RawValue::from_string(json.to_string()).expect("stored forms are JSON");
    let form = EventForm {
        seq: event.seq,
        at: event.at,
        kind: stored.kind.to_string(),
        head: raw(&stored.head),
        body: stored.body.map(|body| raw(body.as_str())),
    };
    serde_json::to_string(&form).expect("a stored form can be written")
}

fn text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    const GREET: &str = r#"{"format":"resurgam-history","version":1,"encoding":"json",
"instance":"greet-\"1\"","uid":"00000000000000000000000000000007",
"runs":[
{"run":1,"events":[
{"seq":1,"at":1767225600000,"kind":"RunStarted","head":{"name":"greet","seed":1},"body":{"b": 1.0,"a":[]}},
{"seq":2,"at":1767225600000,"kind":"TimerStarted","head":{"fire_at":1767225601000}},
{"seq":3,"at":1767225601000,"kind":"TimerFired","head":{"of":2}},
{"seq":4,"at":1767225601000,"kind":"RunCompleted","head":{},"body":null}
]},
{"run":2,"events":[

]}
]}
"#;

    #[test]
    fn a_file_is_read_and_written_without_a_change() {
        let export = Export::from_json(GREET).unwrap();
        assert_eq!(export.instance, "greet-\"1\"");
        assert_eq!((export.runs[0].events.len(), export.runs[1].events.len()), (4, 0));
        assert_eq!(export.to_json(), GREET);
    }

    #[test]
    fn fields_that_a_later_version_adds_are_ignored() {
        let newer = GREET.replacen("\"seq\":1", "\"colour\":\"blue\",\"seq\":1", 1);
        let newer = newer.replacen("\"run\":1", "\"run\":1,\"closed\":true", 1);
        assert_eq!(Export::from_json(&newer), Export::from_json(GREET));
    }

    #[track_caller]
    fn refused(from: &str, to: &str, message: &str) {
        let error = Export::from_json(&GREET.replacen(from, to, 1)).unwrap_err();
        assert!(error.contains(message), "{error}");
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        refused("resurgam-history", "temporal", "a file of format \"temporal\"");
        refused("\"version\":1", "\"version\":2", "newer than this one");
        refused("\"encoding\":\"json\"", "\"encoding\":\"zstd\"", "newer than this one");
        refused("00000000000000000000000000000007", "seven", "the uid \"seven\"");
        refused("\"seq\":3", "\"seq\":4", "run 1 of greet-\"1\": event 4 stands where event 3");
        refused("TimerFired", "TimerBurnt", "event 3: the kind \"TimerBurnt\" is unknown");
        refused("RunStarted", "TimerFired", "event 1: the head of TimerFired has no of");
        refused("{\"format\"", "{\"seq\"", "missing field `format`");
    }
}
