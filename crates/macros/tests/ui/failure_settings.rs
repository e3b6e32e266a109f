use resurgam_macros::FailureType;
use serde::{Deserialize, Serialize};

macro_rules! errors {
    ($($name:ident)*) => {$(
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{self:?}")
            }
        }

        impl std::error::Error for $name {}
    )*};
}

errors!(Unknown Wrong Twice Misplaced);

#[derive(Debug, Serialize, Deserialize, FailureType)]
#[failure(nmae = "x", message = "no", colour = "blue")]
struct Unknown;

#[derive(Debug, Serialize, Deserialize, FailureType)]
#[failure(name = 7, name = "", name, terminal, retryable, code, retry_after = 30)]
struct Wrong;

#[derive(Debug, Serialize, Deserialize, FailureType)]
#[failure(terminal = true, name = "one", name = "two", parent = 3)]
struct Twice;

#[derive(Debug, Serialize, Deserialize, FailureType)]
#[failure(alias = "old", retry_after = std::time::Duration::ZERO)]
enum Misplaced {
    #[failure(crate = resurgam)]
    One,
    #[failure(name = "One")]
    Two,
}

#[derive(FailureType)]
struct Generic<T>(T);

#[derive(FailureType)]
union Either {
    one: u8,
    other: i8,
}

fn main() {}
