//! The words of a command line, as a shell would see them. Enough of it for guides: quotes,
//! comments, several commands in a line, redirections.

use resurgam_watchdog::test;

/// The commands of a line, each with its words. What sets variables, and where input and output go,
/// is left out.
pub(crate) fn commands(line: &str) -> Vec<Vec<String>> {
    let words = words(line);
    let commands = words.split(|word| ["&&", "||", "|", ";", "&"].contains(&word.as_str()));
    commands.map(without_redirections).filter(|command| !command.is_empty()).collect()
}

fn without_redirections(words: &[String]) -> Vec<String> {
    let mut command = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            ">" | ">>" | "<" | "2>" => drop(words.next()),
            _ if command.is_empty() && is_assignment(word) => {}
            _ => command.push(word.clone()),
        }
    }
    command
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=')
        .is_some_and(|(name, _)| name.chars().all(|c| c.is_ascii_uppercase() || c == '_'))
}

fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, '(' | ')') if word.is_none() => {}
            (None, ';' | ')') => {
                words.extend(word.take());
                words.push(";".to_string());
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[test]
fn a_line_is_taken_apart_as_a_shell_would() {
    let line =
        r#"A_B=1 resurgam run x.rap --input '{"a": 1}' < in > out && cat "a b" | wc   # why"#;
    let expected: [&[&str]; 3] =
        [&["resurgam", "run", "x.rap", "--input", r#"{"a": 1}"#], &["cat", "a b"], &["wc"]];
    assert_eq!(commands(line), expected);
    assert_eq!(commands("cd x; (ls -l)"), [vec!["cd", "x"], vec!["ls", "-l"]]);
    assert!(commands("# nothing").is_empty());
}
