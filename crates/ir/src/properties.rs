//! What holds for every text: it is read or refused without a panic, and what is printed is read as
//! the same tree again.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use resurgam_watchdog::test;

use crate::format::print;
use crate::parser::{Parsed, Reading, parse};
use crate::{Dialect, Program, Value, format};

const NAMES: [&str; 12] = [
    "a", "b", "order", "input", "retry", "timeout", "spread", "parallel", "sleep", "pass", "größe",
    "returned",
];

const LITERALS: [&str; 14] = [
    "0",
    "7",
    "-9223372036854775808",
    "1.5",
    "1.",
    "1e3",
    ".5",
    "True",
    "False",
    "None",
    "\"x y\"",
    "\"C:\\names\"",
    "'it\\'s \\u00e9'",
    "''",
];

const POLICIES: [&str; 12] = [
    "[retry: 3]",
    "[ retry:3 , backoff : 60 ]",
    "[NetworkError->retry:5,backoff:2m linear]",
    "[(A, B) -> retry: 3, backoff: 30s, max_delay: 5m, jitter: 20%,]",
    "[A, pkg.B -> retry: 1, backoff: 1s, multiplier: 1.5, jitter: full]",
    "[timeout: 2m]",
    "[timeout_retry: 2, backoff: 500ms]",
    "[retry: 3, backoff: 1s, # why\n max_elapsed: 1h]",
    "[retry: 3, on_exhausted:pause   2h]",
    "[on_exhausted: compensate, retry: 3]",
    "[fallback:@pay.later]",
    "[ fallback : {\"paid\":[a,-1,None] , 'b':a+1 or xs[0]} ]",
];

fn name() -> impl Strategy<Value = String> {
    select(NAMES.to_vec()).prop_map(str::to_string)
}

/// Names that no statement begins with.
fn plain() -> impl Strategy<Value = String> {
    select(vec!["a", "b", "xs"]).prop_map(str::to_string)
}

fn action(argument: BoxedStrategy<String>) -> BoxedStrategy<String> {
    let arguments = vec((name(), argument), 0..3).prop_map(|arguments| {
        let arguments = arguments.iter().map(|(name, value)| format!("{name} ={value}"));
        arguments.collect::<Vec<_>>().join(", ")
    });
    let policies = vec(select(POLICIES.to_vec()), 0..3).prop_map(|all| all.join(" "));
    (select(vec!["f", "pay.charge", "sleep", "for"]), arguments, policies)
        .prop_map(|(name, arguments, policies)| format!("@{name}({arguments}){policies}"))
        .boxed()
}

fn expr() -> BoxedStrategy<String> {
    let leaf = prop_oneof![name(), select(LITERALS.to_vec()).prop_map(str::to_string)];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let operators = vec![
            "+", "-", "*", "/", "//", "%", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and",
            "or",
        ];
        let inner = inner.boxed();
        prop_oneof![
            (inner.clone(), select(operators), inner.clone())
                .prop_map(|(a, operator, b)| format!("{a} {operator} {b}")),
            inner.clone().prop_map(|a| format!("({a})")),
            inner.clone().prop_map(|a| format!("(not {a})")),
            inner.clone().prop_map(|a| format!("-{a}")),
            vec(inner.clone(), 0..3).prop_map(|items| format!("[{}]", items.join(","))),
            vec((inner.clone(), inner.clone()), 0..3).prop_map(|entries| {
                let entries = entries.iter().map(|(key, value)| format!("({key}): {value}"));
                format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
            }),
            (inner.clone(), name()).prop_map(|(a, field)| format!("({a}).{field}")),
            (inner.clone(), inner.clone()).prop_map(|(a, index)| format!("({a})[{index}]")),
            (plain(), inner.clone()).prop_map(|(f, a)| format!("{f}({a}, order={a})")),
            action(inner.clone()),
            action(inner).prop_map(|action| format!("parallel({action}, a(1))")),
        ]
    })
    .boxed()
}

/// A statement as lines.
fn statement() -> BoxedStrategy<Vec<String>> {
    let line = |text: BoxedStrategy<String>| text.prop_map(|line| vec![line]).boxed();
    let simple = prop_oneof![
        line((plain(), expr()).prop_map(|(name, value)| format!("{name} = {value}")).boxed()),
        line(expr().prop_map(|value| format!("({value})  # behind")).boxed()),
        line(expr().prop_map(|value| format!("return {value}")).boxed()),
        line(expr().prop_map(|value| format!("sleep ({value})")).boxed()),
        line(action(expr()).prop_map(|action| format!("a, b = spread xs : i->{action}")).boxed()),
        line(
            select(vec!["pass", "return", "sleep", "break", "# alone", ""])
                .prop_map(str::to_string)
                .boxed()
        ),
        action(expr()).prop_map(|action| {
            vec![
                "xs = parallel:".into(),
                format!("  {action}"),
                "  # inside".into(),
                "  b(a=1)".into(),
            ]
        }),
    ];
    simple
        .prop_recursive(3, 16, 3, |inner| {
            let block = vec(inner, 1..4).prop_map(|statements| {
                let lines = statements.into_iter().flatten().chain(["pass".to_string()]);
                lines.map(|line| format!("   {}", line.replace('\n', "\n   "))).collect::<Vec<_>>()
            });
            let headed = |headers: Vec<&'static str>, block: BoxedStrategy<Vec<String>>| {
                vec(block, headers.len()).prop_map(move |blocks| {
                    let header = |(header, block): (&&str, Vec<String>)| {
                        std::iter::once(header.to_string()).chain(block).collect::<Vec<_>>()
                    };
                    headers.iter().zip(blocks).flat_map(header).collect::<Vec<String>>()
                })
            };
            let block = block.boxed();
            prop_oneof![
                headed(vec!["if a:"], block.clone()),
                headed(vec!["if a:", "elif b:  # why", "else:"], block.clone()),
                headed(vec!["for a, b in xs:"], block.clone()),
                headed(vec!["while not a:"], block.clone()),
                headed(vec!["try:", "except A, B as e:", "except:"], block),
            ]
        })
        .boxed()
}

fn program() -> impl Strategy<Value = String> {
    vec(statement(), 1..6).prop_map(|statements| {
        let lines = statements.into_iter().flatten().chain(["return 1".to_string()]);
        let lines: Vec<String> =
            lines.map(|line| format!("  {}", line.replace('\n', "\n  "))).collect();
        let text =
            format!("# first\nfn main(input: [a, b], output: [xs]):\n{}\n", lines.join("\n"));
        text + "fn other(input: [], output: []):\n  return 1\n# last\n"
    })
}

fn reading() -> impl Strategy<Value = Reading> {
    (select(Dialect::ALL.to_vec()), any::<bool>())
        .prop_map(|(dialect, certain)| Reading { dialect, certain })
}

/// Pieces of programs in any order.
fn soup() -> impl Strategy<Value = String> {
    let words = vec![
        "fn ",
        "main",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "input",
        ":",
        ",",
        "output",
        "\n",
        "    ",
        "\t",
        "\n    ",
        "\n        ",
        "if ",
        "elif ",
        "else",
        "for ",
        "in ",
        "while ",
        "try:",
        "except ",
        "as ",
        "return ",
        "break",
        "continue",
        "pass",
        "sleep ",
        "@",
        "f",
        ".",
        "=",
        "==",
        "->",
        "retry",
        "timeout",
        "backoff",
        "3",
        "30s",
        "1.",
        "1e",
        "\"",
        "'",
        "\\",
        "\\u",
        "spread ",
        "parallel",
        "and ",
        "or ",
        "not ",
        "-",
        "+",
        "*",
        "//",
        "%",
        "<",
        "!",
        "#",
        "é",
        "\u{feff}",
        "\r\n",
        "9223372036854775808",
        "True",
        "None",
        "x = ",
        "@f(x=1) [",
        "[A -> ",
        "\0",
        "😀",
    ];
    vec(select(words), 0..60).prop_map(|words| words.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_printed_is_read_as_the_same_tree(text in program(), reading in reading()) {
        let Parsed { tree, comments, problems } = parse(&text, reading);
        prop_assert!(problems.is_empty(), "{problems:?}\n{text}");
        let printed = print(&text, &tree, &comments);
        let again = parse(&printed, reading);
        prop_assert!(again.problems.is_empty(), "{:?}\n{text}\n{printed}", again.problems);
        prop_assert_eq!(&again.tree, &tree, "{}\n{}", text, printed);
        prop_assert_eq!(comments.len(), again.comments.len(), "{}\n{}", text, printed);
        let twice = print(&printed, &again.tree, &again.comments);
        prop_assert_eq!(&twice, &printed, "{}", text);
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in prop_oneof![soup(), any::<String>()]) {
        for dialect in [None, Some(Dialect::Rappel), Some(Dialect::Waymark)] {
            match Program::read("a.rap", &text, dialect) {
                Ok(program) => drop(program.compile()),
                Err(errors) => drop((errors.to_string(), errors.to_json())),
            }
            if let Ok(printed) = format("a.rap", &text, dialect) {
                let again = format("a.rap", &printed, dialect);
                prop_assert_eq!(again.ok(), Some(printed));
            }
        }
    }

    #[test]
    fn a_function_around_soup_does_not_panic_either(text in soup()) {
        let text = format!("fn main(input: [x], output: []):\n    {text}\n");
        let _errors_or_not = Program::read("a.rap", &text, None).map_err(|errors| errors.to_string());
    }

    #[test]
    fn json_comes_back_as_it_went(text in "[ -~]{0,20}", number in any::<i64>(), float in any::<f64>()) {
        let float = if float.is_finite() { float } else { 0.5 };
        let json = serde_json::json!({"b": [text, number, null, true], "a": {"f": float}});
        let value = Value::from_json(&json).unwrap();
        prop_assert_eq!(serde_json::to_value(&value).unwrap(), json);
    }
}
