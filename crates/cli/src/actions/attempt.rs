//! One attempt of an action: from its arguments to its result.

use std::fmt;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use resurgam_core::{Failure, Kind, Payload};
use resurgam_graph::{KEY_VARIABLE, NodeCall, SecretsKey};
use resurgam_sdk::ActivityContext;
use rustix::process::Signal;
use serde_json::Value;
use zeroize::Zeroizing;

use super::answer::{self, Ended, Printed};
use super::heartbeat::{self, Pipe, Pipes};
use super::lack::Unstarted;
use super::launch::Launcher;
use super::line::Line;
use super::manifest::{self, Manifest};
use super::mask::Mask;
use super::output::{STDOUT, TooMuch};
use super::process::{GroupId, Process};
use crate::database::DB_VARIABLE;
use crate::operator::TOKEN_VARIABLE;

/// How long an action has to clean up behind itself after SIGTERM.
pub(crate) const GRACE: Duration = Duration::from_secs(5);

/// When a file that was there is asked for again.
const GONE: Duration = Duration::from_secs(1);

/// Runs actions.
#[derive(Debug)]
pub(crate) struct Runner {
    launcher: Arc<Launcher>,
    pipes: Pipes,
    key: Option<SecretsKey>,
    drain: Drain,
    grace: Duration,
    line: Line,
}

/// How long actions may go on by themselves once they were told to end: no time at all, unless the
/// whole process is about to end in an orderly way.
#[derive(Clone, Default)]
pub(crate) struct Drain(Arc<AtomicU64>);

impl Drain {
    /// The process is about to end: actions have this long.
    pub(crate) fn begin(&self, time: Duration) {
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.0.store(millis, Ordering::Relaxed);
    }

    fn time(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }
}

impl fmt::Debug for Drain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Drain({:?})", self.time())
    }
}

/// What a process is started with.
struct Call {
    /// What goes to standard input.
    input: Vec<u8>,
    secrets: Mask,
    is_node: bool,
}

/// An action that was started.
struct Started {
    manifest: Manifest,
    pipe: Pipe,
    process: Process,
}

impl Runner {
    pub(crate) fn new(launcher: Launcher, key: Option<SecretsKey>) -> io::Result<Self> {
        let (launcher, pipes) = (Arc::new(launcher), Pipes::new()?);
        let (drain, line) = (Drain::default(), Line::default());
        Ok(Runner { launcher, pipes, key, drain, grace: GRACE, line })
    }

    /// What lets actions go on when the process is about to end.
    pub(crate) fn drain(&self) -> Drain {
        self.drain.clone()
    }

    /// Makes one attempt.
    pub(crate) async fn attempt(
        &self,
        file: &Path,
        ctx: &ActivityContext,
        input: &Payload,
    ) -> Result<Payload, Failure> {
        if !file.exists() {
            // Somebody is replacing it. That is nobody's failure.
            return Err(Failure::snooze(GONE));
        }
        let call = self.read(input)?;
        let started = self.line.start(ctx, || self.start(file, ctx, &call)).await?;
        // The last to be dropped is the first here: the next action gets what this one had.
        let (_place, Started { manifest, mut pipe, mut process }) = started;
        let ended = self.watch(&mut process, ctx, &call, &mut pipe).await?;
        // What is left in its group ends with it, and is not waited for.
        drop(process);
        let ended = ended.map_err(|error| Unstarted::new("run", file, &error))?;
        let ended = ended.map_err(|TooMuch| too_much())?;
        let Printed { value: result, complaint } =
            answer::result(&ended, &call.secrets, manifest.output)?;
        if let Some(complaint) = complaint {
            tracing::warn!(instance = ctx.instance(), action = ctx.activity(), "{complaint}");
        }
        if call.is_node {
            let printed: Value = result.decode().map_err(Failure::from)?;
            resurgam_graph::outputs_of(printed)?;
        }
        Ok(result)
    }

    /// What is missing here for a call: the key of its graph's secrets.
    pub(crate) fn lacks(&self, input: &Payload) -> Option<String> {
        // Asked often, and hardly any call has secrets.
        if !input.as_str().contains("\"secrets\"") {
            return None;
        }
        NodeCall::of(&input.decode().ok()?)?.lacks(self.key.as_ref())
    }

    /// What calls may need that is here.
    pub(crate) fn provides(&self) -> Arc<[String]> {
        self.key.iter().map(|key| SecretsKey::need(&key.fingerprint())).collect()
    }

    /// Takes a call apart: a node of a graph has secrets.
    fn read(&self, input: &Payload) -> Result<Call, Failure> {
        let arguments: Value = input.decode().map_err(Failure::from)?;
        let Some(node) = NodeCall::of(&arguments) else {
            let input = input.as_str().as_bytes().to_vec();
            return Ok(Call { input, secrets: Mask::default(), is_node: false });
        };
        let secrets = node.secret_variables(self.key.as_ref())?;
        let unusable = |(name, value): &&(String, Zeroizing<String>)| {
            name.contains(['=', '\0']) || value.contains('\0')
        };
        if let Some((name, _)) = secrets.iter().find(unusable) {
            let message = format!("{name:?} cannot be an environment variable");
            return Err(Failure::terminal(message).with_type("BadSecret"));
        }
        let (input, secrets) = (node.inputs.to_string().into_bytes(), Mask::new(secrets));
        Ok(Call { input, secrets, is_node: true })
    }

    /// Starts an action, with everything that this takes of the node.
    fn start(&self, file: &Path, ctx: &ActivityContext, call: &Call) -> Result<Started, Unstarted> {
        let trouble = |what, error: io::Error| Unstarted::new(what, file, &error);
        let manifest = Manifest::of(file).map_err(|error| match error {
            manifest::Trouble::Unread(error) => trouble("read about", error),
            manifest::Trouble::Bad(failure) => Unstarted::Failed(failure),
        })?;
        let pipe = self.pipes.open().map_err(|error| trouble("hear", error))?;
        let command = self.command(file, ctx, call, &pipe);
        let command = command.map_err(|error| trouble("start", error))?;
        let process = Process::start(command, self.launcher.clone());
        let process = process.map_err(|error| trouble("start", error))?;
        Ok(Started { manifest, pipe, process })
    }

    fn command(
        &self,
        file: &Path,
        ctx: &ActivityContext,
        call: &Call,
        pipe: &Pipe,
    ) -> io::Result<Command> {
        let mut command = self.launcher.command(file)?;
        command.env_remove(KEY_VARIABLE).env_remove(DB_VARIABLE).env_remove(TOKEN_VARIABLE);
        command
            .env("RESURGAM_INSTANCE", ctx.instance())
            .env("RESURGAM_ACTIVITY", ctx.activity())
            .env("RESURGAM_ATTEMPT", ctx.attempt().to_string())
            .env("RESURGAM_IDEMPOTENCY_KEY", ctx.idempotency_key())
            .env("RESURGAM_HEARTBEAT", pipe.path());
        let deadline = ctx.deadline().map(|at| at.as_millis().to_string());
        let last: Option<Value> = ctx.last_heartbeat();
        set(&mut command, "RESURGAM_DEADLINE_MS", deadline);
        set(&mut command, "RESURGAM_LAST_HEARTBEAT", last.as_ref().map(heartbeat::text_of));
        command.envs(call.secrets.variables());
        Ok(command)
    }

    /// Waits for the end of a process, hears its signs of life, and ends it when nobody wants its
    /// result any more.
    async fn watch(
        &self,
        process: &mut Process,
        ctx: &ActivityContext,
        call: &Call,
        pipe: &mut Pipe,
    ) -> Result<io::Result<Result<Ended, TooMuch>>, Failure> {
        let group = process.group();
        let mut work: Work<'_> = Box::pin(process.finish(&call.input));
        let hear = hear(ctx, call, pipe);
        tokio::pin!(hear);
        tokio::select! {
            biased;
            ended = &mut work => return Ok(ended),
            never = &mut hear => match never {},
            () = ctx.cancelled() => {}
        }
        let drain = async {
            tokio::select! {
                () = tokio::time::sleep(self.drain.time()) => {}
                never = &mut hear => match never {},
            }
        };
        tokio::select! {
            ended = &mut work => return Ok(ended),
            () = drain => {}
        }
        end(group, self.grace, work).await
    }
}

type Work<'a> = Pin<Box<dyn Future<Output = io::Result<Result<Ended, TooMuch>>> + Send + 'a>>;

/// Ends a process group: asks first, and kills what does not listen. One that was done in time has
/// a result all the same.
async fn end(
    group: GroupId,
    grace: Duration,
    mut work: Work<'_>,
) -> Result<io::Result<Result<Ended, TooMuch>>, Failure> {
    group.signal(Signal::TERM);
    let ended = tokio::select! {
        ended = &mut work => ended,
        () = tokio::time::sleep(grace) => {
            group.signal(Signal::KILL);
            work.await
        }
    };
    match ended {
        Ok(Ok(ended)) if ended.exit == answer::Exit::Code(0) => Ok(Ok(Ok(ended))),
        _ => Err(Failure::of_kind(Kind::Cancelled, "the action was told to end, and did")),
    }
}

/// Hands the signs of life of an action on, for as long as it is polled.
async fn hear(ctx: &ActivityContext, call: &Call, pipe: &mut Pipe) -> std::convert::Infallible {
    loop {
        let Ok(lines) = pipe.next().await else {
            // Nothing can be heard any more; the heartbeat timeout sees to the rest.
            return std::future::pending().await;
        };
        // The last one is what counts, and each would say that it is alive.
        let Some(line) = lines.into_iter().next_back() else { continue };
        let line = call.secrets.value(line);
        // Whether it is to end is heard elsewhere.
        let _goes_on = ctx.heartbeat(&line);
    }
}

fn set(command: &mut Command, name: &str, value: Option<String>) {
    match value.filter(|value| !value.contains('\0')) {
        Some(value) => command.env(name, value),
        // It may be there because we are somebody's action ourselves.
        None => command.env_remove(name),
    };
}

fn too_much() -> Failure {
    let message = format!("the action printed more than {} MiB", STDOUT >> 20);
    Failure::of_type("OutputTooLarge", message)
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;
    use std::time::Instant;

    use resurgam_sdk::Attempt;
    use serde_json::json;

    use super::super::test_host::Host;
    use super::*;

    /// Longer than anything here takes, also on a busy machine.
    const PATIENCE: Duration = Duration::from_secs(120);

    /// Waits until processes of their own have brought something about, which tell nobody.
    async fn until(what: &str, mut holds: impl FnMut() -> bool) {
        let end = Instant::now() + PATIENCE;
        while !holds() {
            assert!(Instant::now() < end, "after {PATIENCE:?} this has not come to pass: {what}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// A folder with scripts, and what runs them.
    struct Bench {
        folder: tempfile::TempDir,
        runner: Runner,
        host: Arc<Host>,
        last_heartbeat: Option<Payload>,
    }

    impl Bench {
        fn new() -> Self {
            let mut runner = Runner::new(Launcher::Plain, None).unwrap();
            // Nobody who listens is killed because the machine is busy.
            runner.grace = PATIENCE;
            let folder = tempfile::tempdir().unwrap();
            Bench { folder, runner, host: Arc::default(), last_heartbeat: None }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        fn ctx(&self) -> ActivityContext {
            let attempt = self.host.attempt(Some(Duration::from_millis(1_234)));
            let last_heartbeat = self.last_heartbeat.clone();
            ActivityContext::new(Attempt { last_heartbeat, ..attempt })
        }

        /// Runs a shell script as an action.
        async fn run(&self, script: &str, input: &Value) -> Result<Value, Failure> {
            let file = self.path("action");
            fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
            // Another test may have forked while the file was open for writing: that passes.
            let input = Payload::encode(input).unwrap();
            loop {
                let result = self.runner.attempt(&file, &self.ctx(), &input).await;
                match &result {
                    Err(failure) if failure.message.contains("Text file busy") => {
                        tokio::task::yield_now().await;
                    }
                    _ => return result.map(|result| result.decode().unwrap()),
                }
            }
        }

        /// Waits for a file that a script writes.
        async fn until(&self, name: &str) -> String {
            let read = || fs::read_to_string(self.path(name)).unwrap_or_default();
            until(&format!("the script writes {name}"), || read().ends_with('\n')).await;
            read().trim().to_string()
        }
    }

    /// Whether a process is there and not only a memory.
    fn is_alive(pid: &str) -> bool {
        fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
    }

    async fn until_gone(pid: &str) {
        until(&format!("process {pid} is gone"), || !is_alive(pid)).await;
    }

    #[test]
    async fn arguments_go_in_as_json_and_what_is_printed_is_the_result() {
        let bench = Bench::new();
        let input = json!({"order": 1, "big": 12_345_678_901_234_567_890_u64});
        assert_eq!(bench.run("cat", &input).await.unwrap(), input);
        assert_eq!(bench.run("echo done", &input).await.unwrap(), json!("done"));
        assert_eq!(bench.run("exit 0", &input).await.unwrap(), Value::Null);
    }

    #[test]
    async fn an_action_that_does_not_read_its_input_is_not_held_up_by_it() {
        let bench = Bench::new();
        let input = json!({"much": "x".repeat(1 << 20)});
        assert_eq!(bench.run("exec <&-; echo 7", &input).await.unwrap(), json!(7));
    }

    #[cfg(target_os = "linux")]
    #[test]
    async fn who_leaves_the_group_and_keeps_the_pipes_holds_nothing_up() {
        let bench = Bench::new();
        // It writes down its own id, so that the test can end it.
        let daemon = format!(
            "setsid sh -c 'echo $$ > {0}/daemon; exec sleep 1000' & echo 7; echo said >&2",
            bench.folder.path().display()
        );
        let input = json!({});
        let run = bench.run(&daemon, &input);
        let result = tokio::time::timeout(PATIENCE, run).await;
        assert_eq!(result.expect("it is held up").unwrap(), json!(7));
        let pid = bench.until("daemon").await;
        assert!(is_alive(&pid));
        let pid = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
        rustix::process::kill_process(pid, Signal::KILL).unwrap();
    }

    #[test]
    async fn an_action_knows_which_attempt_it_is_and_not_where_the_database_is() {
        let mut bench = Bench::new();
        bench.last_heartbeat = Some(Payload::from_text("{\"row\":7}"));
        let script = "printf '%s %s %s %s %s %s' $RESURGAM_INSTANCE $RESURGAM_ACTIVITY \
                      $RESURGAM_ATTEMPT $RESURGAM_IDEMPOTENCY_KEY $RESURGAM_DEADLINE_MS \
                      $RESURGAM_LAST_HEARTBEAT";
        let key = bench.ctx().idempotency_key();
        let expected = format!("order-42 charge 3 {key} 1234 {{\"row\":7}}");
        assert_eq!(bench.run(script, &json!({})).await.unwrap(), json!(expected));
        let command = bench.runner.command(
            Path::new("/bin/true"),
            &bench.ctx(),
            &Call { input: Vec::new(), secrets: Mask::default(), is_node: false },
            &bench.runner.pipes.open().unwrap(),
        );
        let command = command.unwrap();
        let removed: Vec<_> = command.get_envs().filter(|(_, value)| value.is_none()).collect();
        for name in [KEY_VARIABLE, DB_VARIABLE, TOKEN_VARIABLE] {
            assert!(removed.iter().any(|(removed, _)| *removed == name), "{name}");
        }
    }

    #[test]
    async fn lines_in_the_heartbeat_file_are_heard_while_the_action_runs() {
        let bench = Bench::new();
        let script = "echo 1 > $RESURGAM_HEARTBEAT; echo '{\"row\": 2}' >> $RESURGAM_HEARTBEAT
            while [ ! -e go ]; do sleep 0.01; done; echo $RESURGAM_HEARTBEAT";
        let script = format!("cd {}; {script}", bench.folder.path().display());
        let run = bench.run(&script, &Value::Null);
        let hear = async {
            let is_heard = || bench.host.heard.lock().unwrap().last() == Some(&json!({"row": 2}));
            until("both lines are heard", is_heard).await;
            fs::write(bench.path("go"), "").unwrap();
        };
        let (result, ()) = tokio::join!(run, hear);
        let pipe = result.unwrap();
        assert!(!Path::new(pipe.as_str().unwrap()).exists(), "the pipe is gone with the attempt");
    }

    #[test]
    async fn too_much_output_is_a_failure_and_ends_the_action() {
        let bench = Bench::new();
        let failure = bench.run("yes", &Value::Null).await.unwrap_err();
        assert_eq!(failure.to_string(), "OutputTooLarge: the action printed more than 2 MiB");
        let much = format!("head -c {STDOUT} /dev/zero | tr '\\0' x");
        assert_eq!(bench.run(&much, &Value::Null).await.unwrap().as_str().unwrap().len(), STDOUT);
    }

    #[test]
    async fn any_amount_of_standard_error_is_read_and_its_end_is_kept() {
        let bench = Bench::new();
        let script = "yes | head -c 5000000 >&2; echo '{\"type\":\"Late\"}' >&2; exit 9";
        let failure = bench.run(script, &Value::Null).await.unwrap_err();
        assert_eq!(failure.type_name.as_deref(), Some("Late"));
    }

    #[test]
    async fn a_cancelled_action_is_asked_to_end_and_may_clean_up() {
        let bench = Bench::new();
        let here = bench.folder.path().display();
        let script = format!(
            "cd {here}; trap 'echo cleaned > cleaned; exit 1' TERM; echo $$ > pid
             while :; do sleep 0.01; done"
        );
        let run = bench.run(&script, &Value::Null);
        let cancel = async {
            bench.until("pid").await;
            bench.host.told.send_replace(true);
        };
        let (result, ()) = tokio::join!(run, cancel);
        assert_eq!(result.unwrap_err().kind, Kind::Cancelled);
        assert_eq!(bench.until("cleaned").await, "cleaned");
    }

    #[test]
    async fn an_action_that_does_not_listen_is_killed_with_its_children() {
        let mut bench = Bench::new();
        bench.runner.grace = Duration::from_millis(200);
        let here = bench.folder.path().display();
        let script = format!(
            "cd {here}; trap '' TERM; sh -c 'trap \"\" TERM; echo $$ > child; sleep 1000' &
             echo $$ > pid; while :; do sleep 0.01; done"
        );
        let run = bench.run(&script, &Value::Null);
        let cancel = async {
            let pids = [bench.until("pid").await, bench.until("child").await];
            bench.host.told.send_replace(true);
            pids
        };
        let (result, pids) = tokio::join!(run, cancel);
        assert_eq!(result.unwrap_err().kind, Kind::Cancelled);
        for pid in pids {
            until_gone(&pid).await;
        }
    }

    #[test]
    async fn an_action_that_is_done_although_cancelled_has_its_result() {
        let bench = Bench::new();
        let here = bench.folder.path().display();
        let script = format!(
            "cd {here}; trap 'echo 42; exit 0' TERM; echo $$ > pid; while :; do sleep 0.01; done"
        );
        let run = bench.run(&script, &Value::Null);
        let cancel = async {
            bench.until("pid").await;
            bench.host.told.send_replace(true);
        };
        let (result, ()) = tokio::join!(run, cancel);
        assert_eq!(result.unwrap(), json!(42));
    }

    #[test]
    async fn while_the_process_drains_an_action_ends_by_itself() {
        let bench = Bench::new();
        let here = bench.folder.path().display();
        let script = format!(
            "cd {here}; trap 'exit 1' TERM; echo $$ > pid
             while [ ! -e go ]; do sleep 0.01; done; echo 42"
        );
        bench.runner.drain().begin(PATIENCE);
        let run = bench.run(&script, &Value::Null);
        let drain = async {
            bench.until("pid").await;
            bench.host.told.send_replace(true);
            fs::write(bench.path("go"), "").unwrap();
        };
        let (result, ()) = tokio::join!(run, drain);
        assert_eq!(result.unwrap(), json!(42));
    }

    #[test]
    async fn an_attempt_that_is_dropped_leaves_no_process_behind() {
        let bench = Bench::new();
        let here = bench.folder.path().display();
        let script = format!("cd {here}; echo $$ > pid; sleep 1000");
        let pid = tokio::select! {
            _ = bench.run(&script, &Value::Null) => unreachable!("it sleeps"),
            pid = bench.until("pid") => pid,
        };
        until_gone(&pid).await;
    }

    #[test]
    async fn a_child_that_holds_the_pipes_does_not_hold_up_the_result() {
        let bench = Bench::new();
        let here = bench.folder.path().display();
        let script = format!("cd {here}; sleep 1000 & echo $! > child; echo 42");
        assert_eq!(bench.run(&script, &Value::Null).await.unwrap(), json!(42));
        until_gone(&bench.until("child").await).await;
    }

    #[test]
    async fn a_file_that_is_gone_is_waited_for_and_one_that_cannot_run_is_a_failure() {
        let bench = Bench::new();
        let attempt = |name: &'static str| {
            let (bench, path) = (&bench, bench.path(name));
            async move { bench.runner.attempt(&path, &bench.ctx(), &Payload::null()).await }
        };
        assert_eq!(attempt("nothing").await.unwrap_err().snooze, Some(GONE));
        fs::write(bench.path("data"), "no program").unwrap();
        let failure = attempt("data").await.unwrap_err();
        assert_eq!(failure.type_name.as_deref(), Some("CannotExecute"));
    }

    #[test]
    async fn an_action_that_says_it_prints_json_fails_when_it_does_not() {
        let bench = Bench::new();
        let broken = "echo '{\"a\": 1'";
        assert_eq!(bench.run(broken, &Value::Null).await.unwrap(), json!("{\"a\": 1"));
        let says = format!("# resurgam: {{\"output\": \"json\"}}\n{broken}");
        let failure = bench.run(&says, &Value::Null).await.unwrap_err();
        assert_eq!(failure.type_name.as_deref(), Some("BadOutput"));
        let good = "# resurgam: {\"output\": \"json\"}\necho '[1]'";
        assert_eq!(bench.run(good, &Value::Null).await.unwrap(), json!([1]));
        let bad = "# resurgam: {\"outputs\": \"json\"}\ntouch $0.ran; echo 1";
        let failure = bench.run(bad, &Value::Null).await.unwrap_err();
        assert_eq!(failure.type_name.as_deref(), Some("BadManifest"));
        assert!(!bench.path("action.ran").exists(), "nothing has happened");
    }

    #[test]
    async fn a_node_of_a_graph_gets_its_inputs_and_secrets_and_answers_with_objects() {
        let mut bench = Bench::new();
        let key = SecretsKey::from_text(&SecretsKey::generate_text()).unwrap();
        let stored = key.encrypt("token", "hunter2");
        bench.runner.key = Some(key);
        let about = json!({"identifier": "n", "secrets": {"token": stored}});
        let input = json!({"city": "Bern", "$node": about});
        assert_eq!(bench.run("cat", &input).await.unwrap(), json!({"city": "Bern"}));
        let length = "printf '{\"length\": %s}' ${#RESURGAM_SECRET_token}";
        assert_eq!(bench.run(length, &input).await.unwrap(), json!({"length": 7}));
        let text = bench.run("echo done", &input).await.unwrap_err();
        assert_eq!(text.type_name.as_deref(), Some("BadOutput"));
        let told = "echo \"no $RESURGAM_SECRET_token\" >&2; exit 1";
        let failure = bench.run(told, &input).await.unwrap_err();
        assert_eq!(failure.message, "exit code 1: no [RESURGAM_SECRET_token]");
        bench.runner.key = None;
        let failure = bench.run("cat", &input).await.unwrap_err();
        assert_eq!(failure.type_name.as_deref(), Some("SecretsKeyMissing"));
        assert!(failure.snooze.is_some());
    }
}
