//! Every error of a file is reported at once, with its place and what to do about it.

use expect_test::{Expect, expect};
use resurgam_ir::{Dialect, Program};
use resurgam_watchdog::test;

fn check(text: &str, expected: Expect) {
    check_in(text, None, expected);
}

fn check_in(text: &str, dialect: Option<Dialect>, expected: Expect) {
    let found = match Program::read("order.rap", text, dialect) {
        Ok(_) => "nothing is wrong".to_string(),
        Err(errors) => errors.to_string(),
    };
    expected.assert_eq(&found);
}

/// The errors of some lines in `main`, one line each.
fn short(lines: &str, expected: Expect) {
    let lines: Vec<String> = lines.lines().map(|line| format!("    {line}")).collect();
    let text = format!("fn main(input: [a, b], output: []):\n{}\n", lines.join("\n"));
    let found = match Program::read("order.rap", &text, None) {
        Ok(_) => "nothing is wrong".to_string(),
        Err(errors) => {
            let line = |error: resurgam_ir::Error| {
                let hint = error.hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
                format!("{}:{} {}{hint}", error.line, error.column, error.message)
            };
            errors.iter().map(line).collect::<Vec<_>>().join("\n")
        }
    };
    expected.assert_eq(&found);
}

#[test]
fn an_error_shows_its_line_with_a_marker_and_a_hint() {
    check(
        "fn main(input: [order], output: [total]):\n    total = @price(order=order)\n    return totl\n",
        expect![[r#"
            error: I3 variable 'totl' referenced before assignment in function 'main'
             --> order.rap:3:12
              |
            3 |     return totl
              |            ^^^^
              = did you mean `total`?"#]],
    );
}

#[test]
fn all_errors_of_a_file_are_found_at_once() {
    check(
        "\
fn main(input: [order], output: [total]):
    x = = 3
    y = @charge(order) [retry: 3, backof: 5]
    if order
        z = 1
    return w + x + y + z

fn other(input: [], output: [):
    return $

fn last(input: [], output: []):
    return last2()
",
        expect![[r#"
            error: I2 expected an expression, found `=`
             --> order.rap:2:9
              |
            2 |     x = = 3
              |         ^
              = `==` compares, `=` assigns to names only

            error: I2 the argument has no name
             --> order.rap:3:17
              |
            3 |     y = @charge(order) [retry: 3, backof: 5]
              |                 ^^^^^
              = actions take named arguments: @f(order=1)

            error: I5 unknown field "backof"
             --> order.rap:3:35
              |
            3 |     y = @charge(order) [retry: 3, backof: 5]
              |                                   ^^^^^^
              = did you mean "backoff"?

            error: I2 expected `:`, found the end of the line
             --> order.rap:4:13
              |
            4 |     if order
              |             ^

            error: I3 variable 'w' referenced before assignment in function 'main'
             --> order.rap:6:12
              |
            6 |     return w + x + y + z
              |            ^

            error: I1 `(` is never closed
             --> order.rap:8:9
              |
            8 | fn other(input: [], output: [):
              |         ^

            error: I1 `[` is closed by `)`
             --> order.rap:8:30
              |
            8 | fn other(input: [], output: [):
              |                              ^
              = write `]`

            error: I1 unexpected character "$"
             --> order.rap:9:12
              |
            9 |     return $
              |            ^

            error: I4 function 'last2' is not defined in workflow 'last'
              --> order.rap:12:12
               |
            12 |     return last2()
               |            ^^^^^
               = did you mean `last`?"#]],
    );
}

#[test]
fn errors_are_json_too() {
    let text = "fn main(input: [], output: []):\n    return größe(1, 2)\n";
    let errors = Program::read("a.rap", text, None).unwrap_err();
    expect![[r#"
        {
          "errors": [
            {
              "code": "I4",
              "column": 12,
              "file": "a.rap",
              "hint": "an action is called as @größe",
              "line": 2,
              "message": "function 'größe' is not defined in workflow 'main'",
              "source": "    return größe(1, 2)"
            }
          ]
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&errors.to_json()).unwrap());
}

#[test]
fn habits_of_other_languages_are_answered() {
    short(
        "a += 1\nb++\nc = a ** 2\nd = a is None\ne = 1 if a else 2",
        expect![[r#"
        2:8 expected an expression, found `=` (write `x = x + 1`)
        3:7 expected an expression, found `+` (write `x = x + 1`)
        4:12 expected an expression, found `*` (there is no power operator)
        5:11 expected the end of the line, found `is` (write `==`)
        6:11 expected the end of the line, found `if` (an expression has no conditions, loops or functions in it)"#]],
    );
    short(
        "x = a && b\ny = !a\nz = true\nw = null; return w",
        expect![[r#"
        2:11 unexpected character "&&" (write `and`)
        3:9 unexpected character "!" (write `not`)
        4:9 variable 'true' referenced before assignment in function 'main' (did you mean `True`?)
        5:13 unexpected character ";" (write one statement per line)"#]],
    );
    short(
        "await f()\nraise ValueError\nimport json\nx = f\"{a}\"",
        expect![[r#"
        2:11 expected the end of the line, found `f` (leave out `await`: every action is waited for)
        3:11 expected the end of the line, found `ValueError` (an action fails by itself; there is no `raise`)
        4:12 expected the end of the line, found `json` (there is no `import`)
        5:10 expected the end of the line, found `"{a}"` (there are no format strings; add texts with `+`)"#]],
    );
    short("return a, b", expect!["2:13 expected one value, found `,` (write a list: [a, b])"]);
    short(
        "x = (a, b)\ny = a[1:2]\nz = a.b(3)\nsleep 5s",
        expect![[r#"
        2:11 there are no tuples (write a list: [a, b])
        3:12 there are no slices (take parts of a list in an action)
        4:12 this cannot be called (only functions and actions can, by their name)
        5:11 expected the end of the line, found `5s` (durations stand in brackets only; write seconds here)"#]],
    );
    short(
        "try:\n    pass\nexcept:\n    pass\nfinally:\n    pass\nelse:\n    pass",
        expect![[r#"
        6:5 there is no `finally` (write what is to happen in both cases behind it)
        8:5 `else` without `if` before it"#]],
    );
    check(
        "def main():\n    return 1\n",
        expect![[r#"
            error: I2 expected `fn`, found a statement
             --> order.rap:1:1
              |
            1 | def main():
              | ^^^
              = functions begin with `fn`"#]],
    );
    check(
        "x = 1\ny = 2\n",
        expect![[r#"
            error: I2 expected `fn`, found a statement
             --> order.rap:1:1
              |
            1 | x = 1
              | ^
              = statements stand in functions: fn main(input: [], output: [x]):"#]],
    );
}

#[test]
fn blocks_and_indentation() {
    short(
        "if a:\nreturn 1",
        expect!["3:5 expected an indented block (write `pass` for a block that does nothing)"],
    );
    short(
        "if a: return 1\nreturn 2",
        expect!["2:11 expected the end of the line (put the block into lines of its own)"],
    );
    short(
        "x = 1\n    y = 2\nreturn y",
        expect!["3:1 unexpected indentation (only a line that ends with `:` begins a block)"],
    );
    short(
        "if a:\n        x = 1\n    y = 2\nreturn 1",
        expect![
            "4:1 the indentation matches no block around this line (blocks around it are indented by 0, 4 columns)"
        ],
    );
    short(
        "else:\n    return 1\nbreak\nfor x in a:\n    continue",
        expect![[r#"
        2:5 `else` without `if` before it
        4:5 `break` stands in no loop"#]],
    );
    check(
        "    fn main(input: [], output: []):\n        return 1\n",
        expect![[r#"
            error: I1 unexpected indentation
             --> order.rap:1:1
              |
            1 |     fn main(input: [], output: []):
              | ^^^^
              = the first line of a program is not indented"#]],
    );
}

#[test]
fn brackets_and_strings_that_do_not_end() {
    short(
        "x = @f(a=1\nif a:\n    y = [1, 2\nreturn 1",
        expect![[r#"
        2:11 `(` is never closed
        4:13 `[` is never closed"#]],
    );
    short(
        "x = \"abc\nreturn x)",
        expect![[r#"
        2:9 the string does not end in its line (write " at its end)
        3:13 `)` closes nothing"#]],
    );
    short("x = (1]\nreturn x", expect!["2:11 `(` is closed by `]` (write `)`)"]);
    short(
        "x = 'a\\qb'\ny = '\\ud800'\nreturn x",
        expect![[r#"
        2:11 unknown escape (known are \n \t \r \0 \b \f \u00e9 \\ \" and \')
        3:10 unknown escape (known are \n \t \r \0 \b \f \u00e9 \\ \" and \')"#]],
    );
    short(
        "x = 9223372036854775808\ny = 1e999\nz = 007",
        expect![[r#"
        2:9 the number does not fit into 64 bits
        3:9 the number is too large
        4:9 a number does not begin with 0"#]],
    );
}

#[test]
fn policies_that_mean_nothing_or_cannot_be_honoured() {
    short(
        "@f() []",
        expect!["2:10 retry: missing, so the bracket changes nothing (write [retry: 3])"],
    );
    short(
        "@f() [ValueError ->]",
        expect!["2:10 retry: missing, so the bracket changes nothing (write [retry: 3])"],
    );
    short(
        "@f() [ValueError -> timeout: 3]",
        expect![
            "2:25 timeout: cannot be limited to exception types (write it in a bracket of its own)"
        ],
    );
    short(
        "@f() [retry: 4294967295]",
        expect![[r#"2:18 retry: "4294967295" is not a number of retries from 0 to 4294967294"#]],
    );
    short(
        "@f() [retry: 3, jitter: 5]",
        expect![[
            r#"2:29 jitter: "5" is unknown (use none, full, equal, decorrelated or a share such as 20%)"#
        ]],
    );
    short(
        "@f() [timeout: 0]",
        expect!["2:10 timeout: 0 leaves no time (leave it out, or write a time above 0)"],
    );
    short(
        "@f() [A -> retry: 3, backoff: 1s] [A -> retry: 2]",
        expect!["2:39 this bracket changes nothing (the others say as much; leave it out)"],
    );
    short(
        "@f() [retry: 3] [retry: 3]",
        expect!["2:21 this bracket changes nothing (the others say as much; leave it out)"],
    );
    short("@f() [A -> retry: 3] [retry: 2]", expect!["nothing is wrong"]);
    short(r#"@f(url=a) [gate: "host:{url.host}"] [retry: 2]"#, expect!["nothing is wrong"]);
    short(
        r#"@f(address=a) [gate: "host:{adress.host}"]"#,
        expect!["2:19 gate: the call has no argument `adress` (did you mean `address`?)"],
    );
    short(
        "@f() [retry: 1] [fallback: a] [fallback: @g]",
        expect!["2:10 fallback: a call has one (leave the other bracket out)"],
    );
    short(
        "@f() [retry: 1, on_exhausted: pause] [fallback: a]",
        expect!["2:10 fallback: it is what follows when attempts run out (leave on_exhausted out)"],
    );
    short(
        "@f() [retry: 1, on_exhausted: pause 5x]",
        expect![[
            r#"2:41 on_exhausted: pause: "5x" has the unknown unit "x" (use ms, s, m, h or d)"#
        ]],
    );
    short(
        "@f() [A -> retry: 1, on_exhausted: pause 2h] [retry: 1]",
        expect![
            "2:10 on_exhausted: it is about the whole call (write the same in every retry bracket)"
        ],
    );
    short(
        "@f() [retry: 1, on_exhausted: compensat]",
        expect![[r#"2:35 on_exhausted: "compensat" is unknown (did you mean "compensate"?)"#]],
    );
    short(
        "@f() [fallback: missing + 1]",
        expect!["2:21 variable 'missing' referenced before assignment in function 'main'"],
    );
    short(
        "@f() [fallback: @g(n=1)]",
        expect![
            "2:21 fallback: it gets the arguments of the call (write its name alone, [fallback: @later])"
        ],
    );
    short(
        "@f() [fallback: @sleep]",
        expect!["2:10 fallback: @sleep is part of the language, and no action"],
    );
    short("@f() [fallback: ]", expect!["2:21 expected an expression, found `]`"]);
    short(
        "@f() [retry: 1, fallback: 0]",
        expect!["2:21 fallback: write it in a bracket of its own, [fallback: @later]"],
    );
    short("@f() [fallback: [a, 'x'][0]] [retry: 2]", expect!["nothing is wrong"]);
    short(
        r#"@f() [gate: "a"] [gate: "b"]"#,
        expect!["2:10 gate: a call is behind one (leave the other bracket out)"],
    );
    short(
        "@f() [gate: stripe]",
        expect![[r#"2:17 gate: write its key in quotes, [gate: "stripe"]"#]],
    );
    short(
        r#"@f() [retry: 3, gate: "a"]"#,
        expect![[r#"2:21 gate: write it in a bracket of its own, [gate: "stripe"]"#]],
    );
    short("@f() [retry]", expect![[r#"2:16 expected ":", found "]""#]]);
    short(
        "@f() [A -> retry: 3, max_elapsed: 1h] [B -> retry: 2]",
        expect![
            "2:10 max_elapsed: it bounds the whole call (write the same in every retry bracket)"
        ],
    );
    short(
        "@f() [retry: 3, backoff: 1s, max_elapsed: 1m] [timeout: 2m]",
        expect![
            "2:10 timeout (2m) is longer than max_elapsed (1m): an attempt that times out could never be retried"
        ],
    );
    short(
        "@sleep(duration=3) [retry: 3]",
        expect![
            "2:24 a policy of @sleep changes nothing (waiting cannot fail; leave the bracket out)"
        ],
    );
    short("@f() [timeout: 0] [timeout: 5] [retry: 0]", expect![["nothing is wrong"]]);
}

#[test]
fn calls_that_do_not_fit_what_they_call() {
    check(
        "\
fn main(input: [], output: []):
    a = helper()
    b = helper(1, 2, 3)
    c = helper(1, y=2, y=3)
    d = helper(x=1, z=2)
    e = helper(x=1, 2)
    f = helpr(1, 2)
    g = len()
    h = range(start=1)
    i = @act(1, x=2)
    j = @act(x=1, x=2)
    k = @sleep(seconds=3)
    l = act()

fn helper(input: [x, y], output: []):
    return x

fn helper(input: [x, x], output: []):
    return x
",
        expect![[r#"
            error: I4 missing arguments 'x', 'y' of function 'helper'
             --> order.rap:2:9
              |
            2 |     a = helper()
              |         ^^^^^^^^

            error: I4 function 'helper' takes 2 arguments, not 3
             --> order.rap:3:22
              |
            3 |     b = helper(1, 2, 3)
              |                      ^

            error: I4 argument 'y' of function 'helper' is given twice
             --> order.rap:4:24
              |
            4 |     c = helper(1, y=2, y=3)
              |                        ^

            error: I4 missing argument 'y' of function 'helper'
             --> order.rap:5:9
              |
            5 |     d = helper(x=1, z=2)
              |         ^^^^^^^^^^^^^^^^

            error: I4 function 'helper' has no input 'z'
             --> order.rap:5:21
              |
            5 |     d = helper(x=1, z=2)
              |                     ^

            error: I4 missing argument 'y' of function 'helper'
             --> order.rap:6:9
              |
            6 |     e = helper(x=1, 2)
              |         ^^^^^^^^^^^^^^

            error: I4 an argument without a name stands behind one with a name
             --> order.rap:6:21
              |
            6 |     e = helper(x=1, 2)
              |                     ^

            error: I4 function 'helpr' is not defined in workflow 'main'
             --> order.rap:7:9
              |
            7 |     f = helpr(1, 2)
              |         ^^^^^
              = did you mean `helper`?

            error: I4 'len' takes one argument, not 0
             --> order.rap:8:9
              |
            8 |     g = len()
              |         ^^^^^

            error: I4 'range' takes no named arguments
             --> order.rap:9:15
              |
            9 |     h = range(start=1)
              |               ^^^^^

            error: I2 the argument has no name
              --> order.rap:10:14
               |
            10 |     i = @act(1, x=2)
               |              ^
               = actions take named arguments: @f(order=1)

            error: I4 argument 'x' of @act is given twice
              --> order.rap:11:19
               |
            11 |     j = @act(x=1, x=2)
               |                   ^

            error: I4 @sleep has no argument 'seconds'
              --> order.rap:12:16
               |
            12 |     k = @sleep(seconds=3)
               |                ^^^^^^^
               = write @sleep(duration=5)

            error: I4 function 'act' is not defined in workflow 'main'
              --> order.rap:13:9
               |
            13 |     l = act()
               |         ^^^
               = an action is called as @act

            error: I3 function 'helper' is defined twice
              --> order.rap:18:4
               |
            18 | fn helper(input: [x, x], output: []):
               |    ^^^^^^
               = give one of them another name

            error: I3 input 'x' is named twice
              --> order.rap:18:22
               |
            18 | fn helper(input: [x, x], output: []):
               |                      ^"#]],
    );
}

#[test]
fn functions_do_not_call_themselves() {
    check(
        "\
fn main(input: [], output: []):
    return f()

fn f(input: [], output: []):
    x = g()
    return f()

fn g(input: [], output: []):
    parallel:
        main()
",
        expect![[r#"
            error: I4 recursive function call: f -> f
             --> order.rap:6:12
              |
            6 |     return f()
              |            ^
              = functions cannot call themselves; use a loop

            error: I4 recursive function call: main -> f -> g -> main
              --> order.rap:10:9
               |
            10 |         main()
               |         ^^^^
               = functions cannot call themselves; use a loop"#]],
    );
}

#[test]
fn variables_that_no_way_assigns() {
    short("return x", expect!["2:12 variable 'x' referenced before assignment in function 'main'"]);
    short("x = x + 1", expect!["2:9 variable 'x' referenced before assignment in function 'main'"]);
    short("if a:\n    x = 1\nreturn x", expect![["nothing is wrong"]]);
    short(
        "if a:\n    x = 1\n    return x\nreturn x",
        expect!["5:12 variable 'x' referenced before assignment in function 'main'"],
    );
    short(
        "for i in a:\n    y = x\n    x = i",
        expect!["3:13 variable 'x' referenced before assignment in function 'main'"],
    );
    short("for i in a:\n    if b:\n        y = x\n    x = i", expect![["nothing is wrong"]]);
    short(
        "while a and x:\n    x = 1",
        expect!["2:17 variable 'x' referenced before assignment in function 'main'"],
    );
    short(
        "try:\n    x = @f()\nexcept E as e:\n    y = e\nreturn [x, y, e]",
        expect![["nothing is wrong"]],
    );
    short(
        "xs = spread a:i -> @f(x=i)\nreturn i",
        expect!["3:12 variable 'i' referenced before assignment in function 'main'"],
    );
    short(
        "return len",
        expect![
            "2:12 variable 'len' referenced before assignment in function 'main' (call it: `len(..)`)"
        ],
    );
    short("x, = 1", expect!["2:6 expected one value, found `,` (write a list: [a, b])"]);
}

#[test]
fn handlers_behind_one_for_everything_are_never_reached() {
    short(
        "try:\n    @f()\nexcept:\n    pass\nexcept E:\n    pass",
        expect![
            "6:5 this handler is never reached (the one before it catches everything; put it last)"
        ],
    );
    short(
        "try:\n    @f()\nexcept Exception:\n    pass\nexcept E:\n    pass",
        expect![
            "6:5 this handler is never reached (the one before it catches everything; put it last)"
        ],
    );
}

#[test]
fn an_empty_program_is_one_only_in_waymark() {
    check_in(
        "",
        Some(Dialect::Rappel),
        expect![[r#"
            error: I6 the program has no function
             --> order.rap:1:1
              |
            1 | 
              | ^
              = begin with: fn main(input: [], output: [result]):"#]],
    );
    check_in("", Some(Dialect::Waymark), expect![["nothing is wrong"]]);
    assert_eq!(Program::read("a.rap", "", Some(Dialect::Waymark)).unwrap().entry(), None);
}

#[test]
fn very_deep_nesting_is_an_error_and_not_a_crash() {
    let deep = |open: &str, close: &str| {
        let text = format!("{}1{}", open.repeat(20_000), close.repeat(20_000));
        let text = format!("fn main(input: [], output: []):\n    return {text}\n");
        Program::read("a.rap", &text, None).unwrap_err().iter().next().unwrap().message
    };
    let expected = "expressions are nested more than 100 levels deep";
    for (open, close) in [
        ("(", ")"),
        ("[", "]"),
        ("{\"a\":", "}"),
        ("not ", ""),
        ("-", ""),
        ("@f(x=", ")"),
        ("f(", ")"),
    ] {
        assert_eq!(deep(open, close), expected, "{open}");
    }
    let blocks: Vec<String> = (1..600).map(|depth| format!("{}if 1:", " ".repeat(depth))).collect();
    let text = format!("fn main(input: [], output: []):\n{}\n", blocks.join("\n"));
    let errors = Program::read("a.rap", &text, None).unwrap_err();
    let messages: Vec<String> = errors.iter().map(|error| error.message).collect();
    assert!(messages[0].contains("blocks are nested more than 100 levels deep"), "{messages:?}");
    // What is long and not deep is fine.
    let sum = vec!["1"; 50_000].join(" + ");
    let fields = "x".to_string() + &".a".repeat(50_000);
    let text = format!("fn main(input: [x], output: []):\n    y = {fields}\n    return {sum}\n");
    Program::read("a.rap", &text, None).unwrap();
}

#[test]
fn long_chains_of_functions_are_refused() {
    let functions: Vec<String> = (0..5_000)
        .map(|n| format!("fn f{n}(input: [], output: []):\n    return f{}()\n", n + 1))
        .chain(["fn f5000(input: [], output: []):\n    return 1\n".to_string()])
        .collect();
    let errors = Program::read("a.rap", &functions.join("\n"), None).unwrap_err();
    let messages: Vec<String> = errors.iter().map(|error| error.message).collect();
    assert_eq!(
        messages,
        ["function 'f4950' begins a chain of calls through 51 functions; 50 is the most"]
    );
}
