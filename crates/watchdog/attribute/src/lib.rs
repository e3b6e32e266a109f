//! The attribute `#[test]` of `resurgam-watchdog`, which documents it.
//!
//! It reads tokens and no syntax tree: tests are functions without arguments, and this crate is
//! built before every test, so it depends on nothing.

use proc_macro::{Delimiter, Group, TokenStream, TokenTree};

/// Marks a test that is ended when it hangs. See the crate `resurgam-watchdog`.
#[proc_macro_attribute]
pub fn test(settings: TokenStream, item: TokenStream) -> TokenStream {
    match expand(settings, item) {
        Ok(test) => test,
        Err(why) => source(&format!("::core::compile_error!({why:?});")),
    }
}

/// What stands in the parentheses of the attribute.
struct Settings {
    minutes: u64,
    /// Threads of the runtime; without any, the test's own thread is the runtime.
    threads: Option<u64>,
}

fn expand(settings: TokenStream, item: TokenStream) -> Result<TokenStream, String> {
    let settings = read(settings)?;
    let mut head: Vec<TokenTree> = item.into_iter().collect();
    let body = match head.pop() {
        Some(TokenTree::Group(body)) if body.delimiter() == Delimiter::Brace => body,
        _ => return Err("#[test] stands before a function".to_string()),
    };
    let is_async = head.iter().any(|token| token.to_string() == "async");
    head.retain(|token| token.to_string() != "async");
    let mut test = source("#[::core::prelude::v1::test]");
    test.extend(head);
    let mut arguments = source(&format!("{}, ||", settings.minutes));
    arguments.extend([TokenTree::Group(match is_async {
        true => Group::new(Delimiter::Brace, asynchronous(&settings, body)),
        false => body,
    })]);
    let mut code = source("::resurgam_watchdog::run");
    code.extend([TokenTree::Group(Group::new(Delimiter::Parenthesis, arguments))]);
    test.extend([TokenTree::Group(Group::new(Delimiter::Brace, code))]);
    Ok(test)
}

fn asynchronous(settings: &Settings, body: Group) -> TokenStream {
    let mut code = TokenStream::new();
    // Boxed, so that the runtime is not compiled anew for each test.
    let mut body_code = source("async");
    body_code.extend([TokenTree::Group(body)]);
    code.extend(source("let body: ::resurgam_watchdog::Body<_> = ::std::boxed::Box::pin"));
    code.extend([TokenTree::Group(Group::new(Delimiter::Parenthesis, body_code))]);
    let builder = match settings.threads {
        None => "new_current_thread()".to_string(),
        Some(threads) => format!("new_multi_thread().worker_threads({threads})"),
    };
    code.extend(source(&format!(
        "; ::tokio::runtime::Builder::{builder}.enable_all().build().expect(\"a runtime\")
            .block_on(::resurgam_watchdog::watched(body))"
    )));
    code
}

fn read(settings: TokenStream) -> Result<Settings, String> {
    let text = settings.to_string();
    let mut read = Settings { minutes: 3, threads: None };
    for setting in text.split(',').map(str::trim).filter(|setting| !setting.is_empty()) {
        let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
        let number = value.trim().parse().ok().filter(|number| *number > 0);
        match (name.trim(), number) {
            ("minutes", Some(minutes)) => read.minutes = minutes,
            ("threads", Some(threads)) => read.threads = Some(threads),
            _ => {
                let known = "minutes = 15, threads = 2";
                return Err(format!("unknown setting of #[test]: {setting}; known are {known}"));
            }
        }
    }
    Ok(read)
}

/// Code of ours as tokens.
fn source(code: &str) -> TokenStream {
    code.parse().expect("code that was written by hand")
}
