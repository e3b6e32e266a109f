//! Writes two letters to somebody new, the second one twenty seconds after the first.

use std::time::Duration;

use resurgam::prelude::*;

/// What does the work. Its errors are tried again by policy.
#[activity]
fn write(file: String, text: String) -> Result<String, Failure> {
    if text.is_empty() {
        return Err(Failure::terminal("there is nothing to write")); // never again
    }
    std::fs::write(format!("outbox/{file}"), text)?; // any error: tried again
    Ok(file)
}

/// What is remembered. It only decides; all its waiting goes through `ctx`.
#[workflow]
async fn welcome(ctx: WorkflowContext, name: String) -> Result<String, Failure> {
    let greeting = format!("Welcome, {name}!");
    ctx.call(write(format!("{name}-1.txt"), greeting)).await?;
    ctx.sleep(Duration::from_secs(20)).await?; // takes no thread, and outlives the process
    ctx.call(write(format!("{name}-2.txt"), "Still with us?".to_string())).await
}

#[tokio::main]
async fn main() -> Result<(), resurgam::Error> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init(); // the engine says what is wrong
    let name = std::env::args().nth(1).unwrap_or_else(|| "ada".to_string());
    let app = App::builder().workflow(welcome).activity(write).sqlite("letters.db").await?;

    let id = format!("welcome-{name}");
    match app.start(&id, welcome(name)).await {
        Ok(_) => println!("{id} is started"), // and on the disk
        Err(error) if error.is_already_exists() => println!("{id} was started before"),
        Err(error) => return Err(error),
    }
    if let Some(instance) = app.instance::<String>(&id).await? {
        println!("the last letter is {}", instance.result().await?);
        print!("{}", instance.history().await?);
    }
    app.stop().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use resurgam_testing::TestApp;

    #[tokio::test]
    async fn a_letter_is_tried_until_the_disk_takes_it() {
        let app = TestApp::builder()
            .workflow(welcome)
            .stub(write, |call, attempt| match attempt {
                1..=3 => Err(Failure::new("the disk is full")),
                _ => Ok(call.file),
            })
            .start()
            .await;
        let run = app.start("welcome-ada", welcome("ada".to_string())).await;
        assert_eq!(run.result().await.unwrap(), "ada-2.txt"); // half a minute later, at once
        assert_eq!(app.attempts(write), 8); // four for each letter
    }

    #[tokio::test]
    async fn a_crash_while_it_waits_repeats_nothing() {
        let app = TestApp::builder()
            .workflow(welcome)
            .stub(write, |call, _attempt| Ok(call.file))
            .start()
            .await;
        let run = app.start("welcome-ada", welcome("ada".to_string())).await;
        app.advance(Duration::from_secs(10)).await;
        app.restart().await; // as `kill -9` and another start
        assert_eq!(run.result().await.unwrap(), "ada-2.txt");
        assert_eq!(app.attempts(write), 2);
    }
}
