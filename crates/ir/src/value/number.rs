//! Numbers with Python's rules: exact where they are whole, never wrapping around.

use std::cmp::Ordering;

use resurgam_core::Failure;

use super::{Value, raised};
use crate::ast::Operator;

/// A number; a truth value is one, too.
#[derive(Clone, Copy)]
pub(super) enum Number {
    Int(i64),
    Float(f64),
}

impl Value {
    pub(super) fn number(&self) -> Option<Number> {
        match self {
            Value::Bool(value) => Some(Number::Int(i64::from(*value))),
            Value::Int(value) => Some(Number::Int(*value)),
            Value::Float(value) => Some(Number::Float(*value)),
            _ => None,
        }
    }
}

impl Number {
    fn float(self) -> f64 {
        match self {
            Number::Int(value) => value as f64,
            Number::Float(value) => value,
        }
    }

    /// Compares exactly: a whole number is not rounded to a float first.
    pub(super) fn order(self, other: Number) -> Option<Ordering> {
        match (self, other) {
            (Number::Int(a), Number::Int(b)) => Some(a.cmp(&b)),
            (Number::Float(a), Number::Float(b)) => a.partial_cmp(&b),
            (Number::Int(a), Number::Float(b)) => int_with_float(a, b),
            (Number::Float(a), Number::Int(b)) => int_with_float(b, a).map(Ordering::reverse),
        }
    }
}

fn int_with_float(a: i64, b: f64) -> Option<Ordering> {
    // 2^63 is a float; everything from there on is above every integer.
    const ABOVE: f64 = 9_223_372_036_854_775_808.0;
    if b.is_nan() {
        return None;
    }
    if b >= ABOVE {
        return Some(Ordering::Less);
    }
    if b < -ABOVE {
        return Some(Ordering::Greater);
    }
    let whole = b.trunc();
    let order = a.cmp(&(whole as i64));
    Some(order.then_with(|| whole.partial_cmp(&b).unwrap_or(Ordering::Equal)))
}

pub(super) fn calculate(operator: Operator, a: Number, b: Number) -> Result<Value, Failure> {
    match (a, b) {
        (Number::Int(a), Number::Int(b)) => ints(operator, a, b),
        (a, b) => floats(operator, a.float(), b.float()),
    }
}

pub(super) fn negate(number: Number) -> Result<Value, Failure> {
    match number {
        Number::Int(value) => exact(value.checked_neg()),
        Number::Float(value) => Ok(Value::Float(-value)),
    }
}

fn exact(value: Option<i64>) -> Result<Value, Failure> {
    let overflow = || raised("OverflowError", "the result does not fit into 64 bits");
    value.map(Value::Int).ok_or_else(overflow)
}

fn ints(operator: Operator, a: i64, b: i64) -> Result<Value, Failure> {
    match operator {
        Operator::Add => exact(a.checked_add(b)),
        Operator::Subtract => exact(a.checked_sub(b)),
        Operator::Multiply => exact(a.checked_mul(b)),
        Operator::Divide if b == 0 => Err(by_zero("division by zero")),
        Operator::Divide => Ok(Value::Float(quotient(a, b))),
        Operator::FloorDivide if b == 0 => Err(by_zero("integer division or modulo by zero")),
        Operator::FloorDivide => {
            let rounds_up = |quotient: i64| a % b != 0 && (a < 0) != (b < 0) && quotient <= 0;
            exact(a.checked_div(b).map(|quotient| quotient - i64::from(rounds_up(quotient))))
        }
        Operator::Modulo if b == 0 => Err(by_zero("integer modulo by zero")),
        Operator::Modulo => {
            // The sign is that of the divisor.
            let rest = a.checked_rem(b).unwrap_or(0);
            Ok(Value::Int(if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest }))
        }
    }
}

fn floats(operator: Operator, a: f64, b: f64) -> Result<Value, Failure> {
    let value = match operator {
        Operator::Add => a + b,
        Operator::Subtract => a - b,
        Operator::Multiply => a * b,
        Operator::Divide if b == 0.0 => return Err(by_zero("float division by zero")),
        Operator::Divide => a / b,
        Operator::FloorDivide if b == 0.0 => return Err(by_zero("float floor division by zero")),
        Operator::FloorDivide => floor_division(a, b).0,
        Operator::Modulo if b == 0.0 => return Err(by_zero("float modulo by zero")),
        Operator::Modulo => floor_division(a, b).1,
    };
    Ok(Value::Float(value))
}

fn by_zero(what: &str) -> Failure {
    raised("ZeroDivisionError", what)
}

/// The floored quotient and the rest, which has the sign of the divisor.
fn floor_division(a: f64, b: f64) -> (f64, f64) {
    let mut rest = a % b;
    let mut quotient = (a - rest) / b;
    if rest == 0.0 {
        rest = 0.0_f64.copysign(b);
    } else if (b < 0.0) != (rest < 0.0) {
        rest += b;
        quotient -= 1.0;
    }
    let floored = match quotient == 0.0 {
        true => 0.0_f64.copysign(a / b),
        false => {
            let floor = quotient.floor();
            if quotient - floor > 0.5 { floor + 1.0 } else { floor }
        }
    };
    (floored, rest)
}

/// The quotient of two integers, rounded once. Above 2^53 a float does not hold them, so rounding
/// both and then their quotient would be wrong in the last digit.
fn quotient(a: i64, b: i64) -> f64 {
    const EXACT: u64 = 1 << f64::MANTISSA_DIGITS;
    let (top, bottom) = (a.unsigned_abs(), b.unsigned_abs());
    if top <= EXACT && bottom <= EXACT {
        return a as f64 / b as f64;
    }
    // As many bits as there is room for, and a last one that says whether there were more.
    let shift = u128::from(top).leading_zeros() - 1;
    let scaled = u128::from(top) << shift;
    let bits = scaled / u128::from(bottom);
    let more = u128::from(scaled % u128::from(bottom) != 0);
    let value = (bits | more) as f64 / 2.0_f64.powi(shift.cast_signed());
    if (a < 0) != (b < 0) { -value } else { value }
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn a_quotient_of_large_integers_is_rounded_once() {
        // Values by Python 3.
        for (a, b, expected) in [
            (9_007_199_254_740_993, 3, 3_002_399_751_580_331.0),
            (9_223_372_036_854_775_807, 2, 4.611_686_018_427_388e18),
            (i64::MIN, -1, 9.223_372_036_854_776e18),
            (1, i64::MAX, 1.084_202_172_485_504_4e-19),
            (0, i64::MAX, 0.0),
            (-7, 2, -3.5),
        ] {
            assert_eq!(quotient(a, b), expected, "{a} / {b}");
        }
    }

    #[test]
    fn an_integer_is_compared_with_a_float_exactly() {
        assert_eq!(int_with_float((1 << 53) + 1, (1_u64 << 53) as f64), Some(Ordering::Greater));
        assert_eq!(int_with_float(i64::MAX, i64::MAX as f64), Some(Ordering::Less));
        assert_eq!(int_with_float(3, 3.5), Some(Ordering::Less));
        assert_eq!(int_with_float(-3, -3.5), Some(Ordering::Greater));
        assert_eq!(int_with_float(0, f64::NAN), None);
    }
}
