//! Programs in one layout, with their comments.

use expect_test::{Expect, expect};
use resurgam_ir::{Program, format};
use resurgam_watchdog::test;

fn check(text: &str, expected: Expect) {
    let once = match format("a.rap", text, None) {
        Ok(once) => once,
        Err(errors) => panic!("{errors}"),
    };
    expected.assert_eq(&once);
    assert_eq!(format("a.rap", &once, None).unwrap(), once, "printing is stable");
}

/// The shapes of Rappel's document on retries: comments, one type, several, several brackets, a
/// timeout of its own.
const RETRIES: &str = "\
fn main(input: [], output: [result]):
    # Any failure is tried again three times, first after 60 seconds
    result = @risky_action() [retry: 3, backoff: 60]

    # Only failures of one type
    result = @network_call() [NetworkError -> retry: 5, backoff: 2m]

    # Of several types
    result = @api_call() [(ValueError, KeyError) -> retry: 3, backoff: 30s]

    # Each type by its own policy
    result = @api_call() [RateLimitError -> retry: 10, backoff: 1m] [NetworkError -> retry: 3, backoff: 30s]

    # A timeout stands apart
    result = @slow_action() [retry: 3, backoff: 60] [timeout: 2m]
    return result
";

#[test]
fn the_document_on_retries_is_read_and_printed_as_the_same_tree() {
    let program = Program::read("retries.rap", RETRIES, None).unwrap();
    let printed = format("retries.rap", RETRIES, None).unwrap();
    assert_eq!(Program::read("retries.rap", &printed, None).unwrap(), program);
    assert_eq!(printed.matches('#').count(), 5, "{printed}");
    check(
        RETRIES,
        expect![[r#"
        fn main(input: [], output: [result]):
            # Any failure is tried again three times, first after 60 seconds
            result = @risky_action() [retry: 3, backoff: 60]

            # Only failures of one type
            result = @network_call() [NetworkError -> retry: 5, backoff: 2m]

            # Of several types
            result = @api_call() [(ValueError, KeyError) -> retry: 3, backoff: 30s]

            # Each type by its own policy
            result = @api_call()
                [RateLimitError -> retry: 10, backoff: 1m]
                [NetworkError -> retry: 3, backoff: 30s]

            # A timeout stands apart
            result = @slow_action() [retry: 3, backoff: 60] [timeout: 2m]
            return result
    "#]],
    );
}

#[test]
fn blanks_parentheses_and_indentation_are_put_in_order() {
    check(
        "\
fn main( input:[a,b ,], output : [ x ] ) :
  x=((1+2))*3-(4-5)
  y = not(a in b)and(not a)
  z={ \"k\" :[1,2,],'l':a . b [ 0 ] . c}
  if(a):
      return-x
  elif b :
        pass
  else :
   while True:
     break
  w = spread[1,2] : i->@f( x = i )[ A,B->retry:3,backoff:10s linear , jitter:20%,]
  v = (a.b).c + (a + b) + (-a) * (-(-1))
  return f(1,k = 2)


fn f(input: [n, k], output: []):
    try :
        @g( )
    except (A , B) as e :
        return(e)
",
        expect![[r#"
            fn main(input: [a, b], output: [x]):
                x = (1 + 2) * 3 - (4 - 5)
                y = not (a in b) and not a
                z = {"k": [1, 2], 'l': a.b[0].c}
                if a:
                    return -x
                elif b:
                    pass
                else:
                    while True:
                        break
                w = spread [1, 2]:i -> @f(x=i) [A, B -> retry: 3, backoff: 10s linear, jitter: 20%]
                v = a.b.c + (a + b) + -a * --1
                return f(1, k=2)

            fn f(input: [n, k], output: []):
                try:
                    @g()
                except A, B as e:
                    return e
        "#]],
    );
}

#[test]
fn comments_stay_where_they_are() {
    check(
        "\
#!/usr/bin/env resurgam
# About the file.


# About main.
fn main(input: [a], output: [x]):   # behind the header
    # at the beginning


    # before x
    x = 1  #behind x
    y = [
        1,  # one
        # two
        2,
    ]  # behind y
    if a:  # behind if
        z = 1
        # at the end of if
    # before else
    else:
        # first in else
        z = 2

        # last in else

    # last in main

# Between functions.

fn g(input: [], output: []):
    parallel:  # together
        # the first
        @f()  # behind f
        @g()
        # after the last
    return 1
# At the end.
",
        expect![[r#"
            #!/usr/bin/env resurgam
            # About the file.

            # About main.
            fn main(input: [a], output: [x]):  # behind the header
                # at the beginning

                # before x
                x = 1  # behind x
                # one
                # two
                y = [1, 2]  # behind y
                if a:  # behind if
                    z = 1
                    # at the end of if
                # before else
                else:
                    # first in else
                    z = 2

                    # last in else

                # last in main

            # Between functions.

            fn g(input: [], output: []):
                parallel:  # together
                    # the first
                    @f()  # behind f
                    @g()
                    # after the last
                return 1
            # At the end.
        "#]],
    );
}

#[test]
fn long_lines_are_broken_where_they_can_be() {
    check(
        "\
fn main(input: [order], output: []):
    receipt = @payments.charge(order=order, cents=order.total_cents, currency=\"EUR\") [RateLimitError -> retry: 10, backoff: 1m] [NetworkError -> retry: 3, backoff: 30s] [timeout: 2m]
    x = {\"a_rather_long_key\": order.first_rather_long_field, \"another_rather_long_key\": [order.second_rather_long_field, 1]}
    return @ship(order=order, address={\"street\": order.customer.address.street, \"city\": order.customer.address.city}, weight=1)
",
        expect![[r#"
            fn main(input: [order], output: []):
                receipt = @payments.charge(order=order, cents=order.total_cents, currency="EUR")
                    [RateLimitError -> retry: 10, backoff: 1m]
                    [NetworkError -> retry: 3, backoff: 30s]
                    [timeout: 2m]
                x = {
                    "a_rather_long_key": order.first_rather_long_field,
                    "another_rather_long_key": [order.second_rather_long_field, 1],
                }
                return @ship(
                    order=order,
                    address={"street": order.customer.address.street, "city": order.customer.address.city},
                    weight=1,
                )
        "#]],
    );
}

#[test]
fn what_can_be_read_differently_gets_parentheses() {
    check(
        "\
fn main(input: [sleep, pass, a], output: []):
    (sleep)
    (pass)
    (sleep) - 1
    x = (@f())[a + 1]
    y = (@f()).z
    z = @f()[0]
    w = (1 < 2) < 3
    v = (a or a) and a
    u = -9223372036854775808
    return (not a) in [a]
",
        expect![[r#"
            fn main(input: [sleep, pass, a], output: []):
                (sleep)
                (pass)
                (sleep - 1)
                x = (@f())[a + 1]
                y = @f().z
                z = (@f())[0]
                w = (1 < 2) < 3
                v = (a or a) and a
                u = -9223372036854775808
                return (not a) in [a]
        "#]],
    );
}

#[test]
fn what_follows_when_attempts_run_out_is_printed_in_one_way() {
    check(
        "\
fn main(input: [seat], output: [r]):
    r = @charge(seat=seat)[retry:1,on_exhausted :pause   2h]
    r = @charge(seat=seat) [ fallback:@pay.later ]
    r = @charge(seat=seat) [fallback : {'seat':seat+1 , \"paid\":not True}]  # for now
",
        expect![[r#"
            fn main(input: [seat], output: [r]):
                r = @charge(seat=seat) [retry: 1, on_exhausted: pause 2h]
                r = @charge(seat=seat) [fallback: @pay.later]
                r = @charge(seat=seat) [fallback: {'seat': seat + 1, "paid": not True}]  # for now
        "#]],
    );
}
