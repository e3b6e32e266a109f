//! How a function's name stands for the type it builds.
//!
//! `#[activity] async fn charge(..)` becomes a struct `charge` and a function `charge` that builds
//! it. Where an activity is registered or stubbed, people write `charge`, which is the function;
//! what is needed is the type it returns.

/// A function that builds a `Built` from `Arguments`.
///
/// ```
/// use resurgam_sdk::Constructor;
///
/// struct Charge(u64);
///
/// fn charge(cents: u64) -> Charge {
///     Charge(cents)
/// }
///
/// /// What a function builds, by its name.
/// fn name_of_built<Arguments, F: Constructor<Arguments>>(_constructor: F) -> &'static str {
///     std::any::type_name::<F::Built>()
/// }
/// assert!(name_of_built(charge).ends_with("Charge"));
/// # assert_eq!(charge(1).0, 1);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the name of an activity or a workflow",
    label = "expected a name, without arguments",
    note = "pass the name without calling it: `charge`, not `charge(..)`"
)]
pub trait Constructor<Arguments> {
    /// What it builds.
    type Built;
}

macro_rules! constructors {
    ($($argument:ident)*) => {
        impl<F, R $(, $argument)*> Constructor<($($argument,)*)> for F
        where
            F: Fn($($argument),*) -> R,
        {
            type Built = R;
        }
    };
}

constructors!();
constructors!(A);
constructors!(A B);
constructors!(A B C);
constructors!(A B C D);
constructors!(A B C D E);
constructors!(A B C D E G);
constructors!(A B C D E G H);
constructors!(A B C D E G H I);
constructors!(A B C D E G H I J);
constructors!(A B C D E G H I J K);
constructors!(A B C D E G H I J K L);
constructors!(A B C D E G H I J K L M);
