//! Inputs as text with references: `${{ id.outputs.field }}`, `${{ store.key }}`, and
//! `${{ id.outputs.field[*] }}` for all states of a node at once.
//!
//! Any number of them stands in one text, mixed with other text; what they stand for is put in
//! their place.

/// A text that was taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Text(pub(crate) Vec<Piece>);

/// A piece of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Text that stands for itself.
    Plain(String),
    /// A value of the run's store.
    Store(String),
    /// What a node before this one returned.
    Output(Output),
    /// What all states of a node returned, as a JSON list.
    Collected(Output),
}

/// A field of what a node returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Output {
    pub(crate) identifier: String,
    pub(crate) field: String,
}

const OPEN: &str = "${{";
const CLOSE: &str = "}}";

/// How much of a text a message repeats.
const SHOWN: usize = 200;

impl Text {
    /// Takes a text apart. The error says what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Text, String> {
        let wrapped = |what: String| {
            let shown = shown(text);
            format!("Error creating dependent string for input {shown} check syntax string: {what}")
        };
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((plain, reference)) = rest.split_once(OPEN) {
            push_plain(&mut pieces, plain);
            let Some((inside, after)) = reference.split_once(CLOSE) else {
                let what = invalid(reference.trim(), text);
                return Err(wrapped(format!("{what} '${{' not closed")));
            };
            let piece = parse_reference(inside);
            pieces.push(piece.ok_or_else(|| wrapped(invalid(inside.trim(), text)))?);
            rest = after;
        }
        push_plain(&mut pieces, rest);
        Ok(Text(pieces))
    }
}

fn push_plain(pieces: &mut Vec<Piece>, plain: &str) {
    if !plain.is_empty() {
        pieces.push(Piece::Plain(plain.to_string()));
    }
}

fn parse_reference(inside: &str) -> Option<Piece> {
    let parts: Vec<&str> = inside.split('.').map(str::trim).collect();
    match parts[..] {
        ["store", key] if !key.is_empty() => Some(Piece::Store(key.to_string())),
        [identifier, "outputs", field] if !identifier.is_empty() && identifier != "store" => {
            let collected = field.strip_suffix("[*]").map(str::trim_end);
            let field = collected.unwrap_or(field).to_string();
            let output = Output { identifier: identifier.to_string(), field };
            match (output.field.is_empty(), collected) {
                (true, _) => None,
                (false, Some(_)) => Some(Piece::Collected(output)),
                (false, None) => Some(Piece::Output(output)),
            }
        }
        _ => None,
    }
}

fn invalid(inside: &str, text: &str) -> String {
    format!("Invalid syntax string placeholder {} for: {}", shown(inside), shown(text))
}

/// A text in a message, cut when it is long.
pub(crate) fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    fn output(identifier: &str, field: &str) -> Output {
        Output { identifier: identifier.to_string(), field: field.to_string() }
    }

    #[test]
    fn references_and_text_are_told_apart() {
        let text = "to ${{a.outputs.name}}, ${{ store . key }}${{ b.outputs.x[*] }}!";
        let pieces = vec![
            Piece::Plain("to ".to_string()),
            Piece::Output(output("a", "name")),
            Piece::Plain(", ".to_string()),
            Piece::Store("key".to_string()),
            Piece::Collected(output("b", "x")),
            Piece::Plain("!".to_string()),
        ];
        assert_eq!(Text::parse(text), Ok(Text(pieces)));
        for plain in ["", "$", "{{ a.outputs.x }}", "$ {{x}}", "}} ${ {{"] {
            let pieces = Text::parse(plain).unwrap().0;
            assert!(pieces.iter().all(|piece| matches!(piece, Piece::Plain(_))), "{plain}");
        }
    }

    #[test]
    fn what_is_no_reference_is_named_with_the_text_around_it() {
        assert_eq!(
            Text::parse("x ${{ a.x }}").unwrap_err(),
            "Error creating dependent string for input x ${{ a.x }} check syntax string: Invalid \
             syntax string placeholder a.x for: x ${{ a.x }}"
        );
        assert_eq!(
            Text::parse("${{ a.outputs.x").unwrap_err(),
            "Error creating dependent string for input ${{ a.outputs.x check syntax string: \
             Invalid syntax string placeholder a.outputs.x for: ${{ a.outputs.x '${' not closed"
        );
        for bad in [
            "",
            "a",
            "a.outputs",
            "a.outputs.",
            ".outputs.x",
            "a.outputs.x.y",
            "store",
            "store.",
            "store.a.b",
            "store.outputs.x",
            "a.outputs.[*]",
            "a.inputs.x",
        ] {
            assert!(Text::parse(&format!("${{{{{bad}}}}}")).is_err(), "{bad}");
        }
    }
}
