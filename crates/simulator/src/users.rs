//! Users: they start instances, send signals, cancel, wait for the end, and ask again when nobody
//! answers.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use resurgam_core::command::Settings;
use resurgam_core::{EventKind, Payload, Uid};
use resurgam_store::InboxRow;
use resurgam_store::model::Model;
use resurgam_worker::node::{self, Replies, Reply, Request, Waiter};
use resurgam_worker::{Outcome, Result, StartOptions, Started};

use crate::program::{Maker, Program, Taste};
use crate::random::Random;

/// Somebody who wants an instance.
#[derive(Debug)]
pub(crate) struct User {
    /// The id of the instance.
    pub(crate) id: String,
    /// When they begin.
    pub(crate) begins: Duration,
    input: Payload,
    signals: Vec<String>,
    /// How they want it to end, if not by itself.
    ends: Option<Ends>,
    /// Whether they ask by rows of the inbox, in transactions of their own.
    inserts: bool,
    settings: Settings,
    sent: usize,
    asked: u64,
    /// Where they are.
    pub(crate) stage: Stage,
}

/// Where a user is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The start was not acknowledged yet.
    Starting,
    /// It was.
    Started(Uid),
    /// The user wants nothing more.
    Content,
}

#[derive(Clone, Copy, Debug)]
enum Ends {
    Cancelled,
    Terminated,
}

/// What a user was told, by which process, and to which question.
#[derive(Debug)]
pub(crate) struct Told {
    /// The user.
    pub(crate) user: usize,
    /// The number of their question.
    pub(crate) asked: u64,
    /// The answer.
    pub(crate) answer: Answer,
}

/// An answer.
#[derive(Debug)]
pub(crate) enum Answer {
    /// To a start.
    Started(Result<Started>),
    /// To a signal or a wish that it ends.
    Done(Result<()>),
    /// To the question how it ended.
    Ended(Uid, Result<Outcome>),
    /// To who has a process stop.
    Stopped(Result<()>),
    /// To a wish about a schedule; the user is the one who keeps it.
    Scheduled(Result<()>),
    /// To an operator, whose number of what they want is the question's.
    Acted(Result<()>),
}

/// Where processes put their answers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answers(Arc<Mutex<Vec<Told>>>, Arc<Mutex<(u64, Replies)>>);

impl Answers {
    /// Somebody is answered.
    pub(crate) fn push(&self, told: Told) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(told);
    }

    /// What was answered since this was last asked.
    pub(crate) fn take(&self) -> Vec<Told> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Something happens with the answer to a request.
    pub(crate) fn reply<T: node::Answers>(
        &self,
        then: impl FnOnce(Result<T>) + Send + 'static,
    ) -> Reply<T> {
        let (number, replies) = &mut *self.1.lock().unwrap_or_else(PoisonError::into_inner);
        *number += 1;
        let (reply, waiter) = Waiter::new(*number, then);
        replies.expect(waiter);
        reply
    }

    /// A process answers.
    pub(crate) fn hand_over(&self, answer: node::Answer) {
        self.1.lock().unwrap_or_else(PoisonError::into_inner).1.hand_over(answer);
    }
}

impl User {
    /// The user of this number.
    pub(crate) fn new(number: usize, taste: Taste, random: &mut Random, trouble: Duration) -> Self {
        let (program, signals) = Maker::new(taste, random.fork()).program();
        let ends = match random.below(12) {
            0 => Some(Ends::Cancelled),
            1 => Some(Ends::Terminated),
            _ => None,
        };
        User {
            id: format!("order-{number}"),
            begins: random.delay(Duration::ZERO, trouble),
            input: Payload::encode(&program).unwrap_or_else(|_| Payload::null()),
            signals,
            ends,
            inserts: random.one_in(4),
            settings: some_settings(random),
            sent: 0,
            asked: 0,
            stage: Stage::Starting,
        }
    }

    /// What they ask for next, and its number; `None` when they want nothing more.
    pub(crate) fn next(
        &mut self,
        number: usize,
        model: &Model,
        answers: &Answers,
    ) -> Option<Request> {
        self.asked += 1;
        let (asked, told) = (self.asked, answers.clone());
        match self.stage {
            Stage::Starting => Some(Request::Start {
                workflow: <Program as resurgam_sdk::Workflow>::NAME.to_string(),
                input: self.input.clone(),
                options: StartOptions {
                    id: self.id.clone(),
                    request_id: Some(format!("start-{}", self.id)),
                    settings: self.settings.clone(),
                    ..StartOptions::default()
                },
                reply: answers.reply(move |answer| {
                    told.push(Told { user: number, asked, answer: Answer::Started(answer) });
                }),
            }),
            Stage::Started(uid) => {
                let event = self.next_event()?;
                let run = model.instance(uid)?.run;
                let reply = answers.reply(move |answer| {
                    told.push(Told { user: number, asked, answer: Answer::Done(answer) });
                });
                Some(Request::Tell { uid, run, event, reply })
            }
            Stage::Content => None,
        }
    }

    /// Whether they insert what they want next as a row of the inbox.
    pub(crate) fn inserts(&self) -> bool {
        self.inserts && self.row().is_some()
    }

    /// The row that they insert next: it starts the instance, sends it a signal, or cancels it.
    /// `None` when a row cannot do what they want, or they want nothing more.
    pub(crate) fn row(&self) -> Option<InboxRow> {
        let (id, kind, name, body) = match self.stage {
            Stage::Starting => {
                let name = <Program as resurgam_sdk::Workflow>::NAME.to_string();
                (self.start_row(), "start", Some(name), Some(self.input.clone()))
            }
            Stage::Started(_) => match self.next_event()? {
                EventKind::SignalReceived { name, value, id } => {
                    (id?, "signal", Some(name), Some(value))
                }
                EventKind::CancelRequested { .. } => {
                    (format!("cancel-{}", self.id), "cancel", None, None)
                }
                _ => return None,
            },
            Stage::Content => return None,
        };
        let (instance, kind) = (self.id.clone(), kind.to_string());
        Some(InboxRow { arrival: 0, id: Some(id), instance, kind, name, body })
    }

    /// The id of the row that starts the instance.
    pub(crate) fn start_row(&self) -> String {
        format!("start-{}", self.id)
    }

    /// The request id of the signal that they send now.
    pub(crate) fn request(&self) -> Option<String> {
        self.signals.get(self.sent).map(|name| format!("signal-{}-{}-{name}", self.id, self.sent))
    }

    fn next_event(&self) -> Option<EventKind> {
        if let Some(name) = self.signals.get(self.sent) {
            return Some(EventKind::SignalReceived {
                name: name.clone(),
                value: Payload::encode(&self.sent).unwrap_or_else(|_| Payload::null()),
                id: self.request(),
            });
        }
        match self.ends? {
            Ends::Cancelled => {
                Some(EventKind::CancelRequested { reason: "a change of mind".into() })
            }
            Ends::Terminated => Some(EventKind::TerminateRequested { reason: "enough".into() }),
        }
    }

    /// What they asked for is done.
    pub(crate) fn is_done(&mut self) {
        match self.sent < self.signals.len() {
            true => self.sent += 1,
            false => self.stage = Stage::Content,
        }
    }

    /// Whether an answer is to what they asked last.
    pub(crate) fn asked(&self, number: u64) -> bool {
        self.asked == number
    }

    /// The number of what they asked last.
    pub(crate) fn last_asked(&self) -> u64 {
        self.asked
    }
}

/// Some instances have a bound on their time.
fn some_settings(random: &mut Random) -> Settings {
    let mut time = || random.one_in(6).then(|| random.between(2_000, 200_000));
    Settings { run_timeout_ms: time(), total_timeout_ms: time(), ..Settings::default() }
}

/// Asks how an instance ends. This is the question of that number.
pub(crate) fn wait(user: usize, asked: u64, uid: Uid, answers: &Answers) -> Request {
    let told = answers.clone();
    let reply = answers.reply(move |answer| {
        told.push(Told { user, asked, answer: Answer::Ended(uid, answer) });
    });
    Request::Wait { uid, reply }
}

/// Has a process stop.
pub(crate) fn stop(answers: &Answers) -> Request {
    let told = answers.clone();
    let reply = answers.reply(move |answer| {
        told.push(Told { user: 0, asked: 0, answer: Answer::Stopped(answer) });
    });
    Request::Stop { reply }
}

/// A signal of nobody in particular, so that nothing waits for one for ever.
pub(crate) fn nudge(uid: Uid, run: u32, name: &str, answers: &Answers) -> Request {
    let event = EventKind::SignalReceived {
        name: name.to_string(),
        value: Payload::encode(&0).unwrap_or_else(|_| Payload::null()),
        id: None,
    };
    Request::Tell { uid, run, event, reply: answers.reply(|_| {}) }
}
