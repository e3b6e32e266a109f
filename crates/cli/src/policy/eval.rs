//! Answers questions about policies, one JSON value in a line each.
//!
//! Meant to be driven by another program: every line gets exactly one line back, in order, as
//! soon as it was read. Nothing that stands in a line ends the run; only empty lines are passed
//! over.

use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};

use resurgam_policy::answer::{Answer, answer};

use crate::during;

/// The longest line that is looked at.
const MOST_BYTES: usize = 1 << 20;

/// Answers until the input ends, or nobody reads the answers any more.
pub(crate) fn run(input: impl Read, output: impl Write) -> io::Result<()> {
    let mut input = BufReader::new(input);
    let mut output = BufWriter::new(output);
    while let Some(line) = next_line(&mut input).map_err(during("read a question"))? {
        // Whoever waits for an answer gets it now; those who sent many questions at once do not
        // pay for one write each.
        let flush = !input.buffer().contains(&b'\n');
        match write_answer(&mut output, &line, flush) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            written => written.map_err(during("write an answer"))?,
        }
    }
    Ok(())
}

fn write_answer(output: &mut impl Write, line: &Line, flush: bool) -> io::Result<()> {
    if let Some(answer) = answer_line(line) {
        serde_json::to_writer(&mut *output, &answer)?;
        output.write_all(b"\n")?;
    }
    if flush { output.flush() } else { Ok(()) }
}

/// A line as far as it is kept.
#[derive(Debug, PartialEq)]
enum Line {
    Whole(Vec<u8>),
    TooLong,
}

fn answer_line(line: &Line) -> Option<Answer> {
    let refuse = |error: String| Some(Answer::Error { error });
    let Line::Whole(bytes) = line else {
        return refuse(format!("the line is longer than {MOST_BYTES} bytes"));
    };
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text.trim_start_matches('\u{feff}').trim(),
        Err(error) => {
            return refuse(format!("not UTF-8 text from byte {} on", error.valid_up_to() + 1));
        }
    };
    if text.is_empty() {
        return None;
    }
    match serde_json::from_str(text) {
        Ok(question) => Some(answer(&question)),
        Err(error) => refuse(format!("not JSON: {error}")),
    }
}

/// The next line without its end, or nothing when the input is over.
fn next_line(input: &mut impl BufRead) -> io::Result<Option<Line>> {
    let mut line = Vec::new();
    let most = u64::try_from(MOST_BYTES + 1).unwrap_or(u64::MAX);
    if input.by_ref().take(most).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    line.pop_if(|last| *last == b'\n');
    if line.len() <= MOST_BYTES {
        return Ok(Some(Line::Whole(line)));
    }
    input.skip_until(b'\n')?;
    Ok(Some(Line::TooLong))
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;
    use expect_test::{Expect, expect};

    fn check(input: &[u8], expected: &Expect) {
        let mut output = Vec::new();
        run(input, &mut output).unwrap();
        expected.assert_eq(&String::from_utf8(output).unwrap());
    }

    #[test]
    fn broken_lines_are_answered_and_the_next_one_is_read() {
        let good = r#"{"dialect":"edda","kind":"delay","config":{},"retry_index":2}"#;
        let mut input = Vec::new();
        for line in [good.as_bytes(), b"{", b"\xff\xfe", b"", b"   \r", b"[]", good.as_bytes()] {
            input.extend(line);
            input.push(b'\n');
        }
        check(
            &input,
            &expect![[r#"
                {"delay_ms":2000}
                {"error":"not JSON: EOF while parsing an object at line 1 column 1"}
                {"error":"not UTF-8 text from byte 1 on"}
                {"error":"a list is not a question: an object"}
                {"delay_ms":2000}
            "#]],
        );
    }

    #[test]
    fn the_last_line_needs_no_end() {
        check(
            b"\xef\xbb\xbf7",
            &expect![[r#"
            {"error":"7 is not a question: an object"}
        "#]],
        );
    }

    #[test]
    fn a_line_without_end_does_not_fill_the_memory() {
        let mut input = vec![b'['; MOST_BYTES];
        input.extend(b"[[[[\n5\n");
        check(
            &input,
            &expect![[r#"
            {"error":"the line is longer than 1048576 bytes"}
            {"error":"5 is not a question: an object"}
        "#]],
        );
    }

    #[test]
    fn a_line_of_just_the_allowed_length_is_read() {
        let mut input = vec![b' '; MOST_BYTES - 1];
        input.extend(b"5\n6\n");
        check(
            &input,
            &expect![[r#"
            {"error":"5 is not a question: an object"}
            {"error":"6 is not a question: an object"}
        "#]],
        );
    }
}
