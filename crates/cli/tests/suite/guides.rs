//! What guides show about an instance is what the program prints about it, but for times and
//! numbers: an activity cannot write its file, and a workflow's code changes.
#![cfg(unix)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use resurgam::prelude::*;
use resurgam::{Description, Status, Timestamp};
use resurgam_watchdog::test;

use crate::processes::{self, PATIENCE};

/// Where the letters go.
struct Outbox(PathBuf);

#[activity]
async fn write(ctx: ActivityContext, file: String, text: String) -> Result<String, Failure> {
    std::fs::write(ctx.state::<Outbox>().0.join(&file), text)?;
    Ok(file)
}

mod today {
    use super::*;

    #[workflow]
    pub(super) async fn welcome(ctx: WorkflowContext, name: String) -> Result<String, Failure> {
        ctx.call(write(format!("{name}-1.txt"), format!("Welcome, {name}!"))).await?;
        ctx.sleep(Duration::from_secs(20)).await?;
        ctx.call(write(format!("{name}-2.txt"), "Still with us?".to_string())).await
    }
}

mod tomorrow {
    use super::*;

    #[workflow]
    pub(super) async fn welcome(ctx: WorkflowContext, name: String) -> Result<String, Failure> {
        ctx.call(write(format!("{name}-1.txt"), format!("Good day, {name}!"))).await
    }
}

async fn app(folder: &Path) -> App {
    let builder = App::builder().workflow(today::welcome).activity(write);
    builder.state(Outbox(folder.join("outbox"))).sqlite(folder.join("letters.db")).await.unwrap()
}

/// Waits until an instance is as wanted.
async fn until(app: &App, id: &str, wanted: impl Fn(&Description) -> bool) -> Description {
    let end = Instant::now() + PATIENCE;
    loop {
        let description = app.describe(id).await.unwrap().unwrap();
        if wanted(&description) {
            return description;
        }
        assert!(Instant::now() < end, "after {PATIENCE:?}, not as wanted: {description:?}");
        // Between two looks: nobody tells that something in a description has changed.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The `text` blocks of a guide.
fn texts(guide: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(guide);
    let page = std::fs::read_to_string(path).unwrap();
    let blocks = page.split("```text\n").skip(1);
    blocks.map(|block| block.split("```").next().unwrap().to_string()).collect()
}

/// The lines of a text with `_` in place of times and numbers, those that are then alike once.
pub(crate) fn outline(text: &str) -> Vec<String> {
    let line = |line: &str| line.split_whitespace().map(plain).collect::<Vec<&str>>().join(" ");
    let mut lines: Vec<String> = text.lines().map(line).collect();
    lines.dedup();
    lines
}

fn plain(word: &str) -> &str {
    let is_number = word.trim_start_matches('+').starts_with(|c: char| c.is_ascii_digit());
    if is_number { "_" } else { word }
}

/// What a guide shows behind this command, and what the command prints in this folder.
fn shown_and_printed(guide: &str, command: &str, folder: &Path) -> (Vec<String>, Vec<String>) {
    let begins = format!("$ resurgam {command} ");
    let texts = texts(guide);
    let shown = texts.iter().find(|text| text.starts_with(&begins)).unwrap();
    let (command, shown) = shown.split_once('\n').unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_resurgam"));
    let program = program.args(command.split(' ').skip(2)).current_dir(folder);
    let output = processes::output(program.stdin(Stdio::null()));
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    (outline(shown), outline(&String::from_utf8_lossy(&output.stdout)))
}

#[test(minutes = 15)]
async fn the_guides_show_what_is_printed_about_an_instance() {
    let folder = tempfile::tempdir().unwrap();
    let app = app(folder.path()).await;
    app.start("welcome-bob", today::welcome("bob".to_string())).await.unwrap();
    let is_between_attempts = |bob: &Description| {
        let is_later = |due: Timestamp| due > app.handle().now();
        bob.pending.iter().any(|call| call.last.is_some() && call.next_due.is_some_and(is_later))
    };
    for (guide, command) in [
        ("getting-started.md", "show"),
        ("operations.md", "list"),
        ("operations.md", "show"),
        ("operations.md", "attempts"),
    ] {
        // A slow machine may look when the next attempt is due already. There is more time before
        // the one after that.
        for looks_left in (0..10).rev() {
            until(&app, "welcome-bob", is_between_attempts).await;
            let (shown, printed) = shown_and_printed(guide, command, folder.path());
            if shown == printed {
                break;
            }
            assert!(looks_left > 0, "{command} in {guide}: {shown:#?} and not {printed:#?}");
        }
    }

    std::fs::create_dir(folder.path().join("outbox")).unwrap();
    let letter = folder.path().join("outbox/bob-1.txt");
    until(&app, "welcome-bob", |bob| letter.exists() && bob.pending.is_empty()).await;
    let (shown, printed) = shown_and_printed("getting-started.md", "history", folder.path());
    // The guide waits for twenty seconds, and we do not.
    assert_eq!(shown[..printed.len()], printed);

    // The histories of the others are the same, but for the attempts that failed.
    let at_once = |line: &String| line.replace(" (attempt _", "");
    let steps: Vec<String> = shown.iter().map(at_once).collect();
    for name in ["ada", "eve"] {
        let histories = texts("getting-started.md");
        let history = histories.iter().find(|text| text.starts_with(&format!("welcome-{name}")));
        for line in outline(history.unwrap()).iter().skip(2) {
            assert!(steps.contains(&line.replace(name, "bob")), "{line}");
        }
    }
    app.stop().await.unwrap();
}

#[test(minutes = 15)]
async fn the_guide_to_operations_shows_why_a_run_is_blocked() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("outbox")).unwrap();
    let before = app(folder.path()).await;
    before.start("welcome-dan", today::welcome("dan".to_string())).await.unwrap();
    let letter = folder.path().join("outbox/dan-1.txt");
    until(&before, "welcome-dan", |dan| letter.exists() && dan.pending.is_empty()).await;
    before.stop().await.unwrap();

    let builder = App::builder().workflow(tomorrow::welcome).activity(write);
    let builder = builder.state(Outbox(folder.path().join("outbox")));
    let after = builder.sqlite(folder.path().join("letters.db")).await.unwrap();
    // Something happens to the run, so that its code goes through its history.
    after.cancel("welcome-dan", "enough").await.unwrap();
    let dan = until(&after, "welcome-dan", |dan| dan.instance.status == Status::Blocked).await;
    let error = dan.instance.error.unwrap();
    let texts = texts("operations.md");
    assert!(texts.iter().any(|text| text.trim_end() == error.trim_end()), "{error}");
    after.stop().await.unwrap();
}
