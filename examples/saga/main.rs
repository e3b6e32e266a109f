//! A saga: a flight, a hotel and a car are booked. When the last of them cannot be had, what was
//! booked before is cancelled, the last one first.
//!
//! ```sh
//! cargo run -p resurgam-examples --bin saga -- trips.db
//! ```
//!
//! What undoes a booking is written down in the same commit as the booking itself. Kill the program
//! between the two and start it again: nothing stays booked that nobody wants.

use std::fmt;
use std::time::Duration;

use resurgam::prelude::*;
use serde::{Deserialize, Serialize};

const PATIENT: RetryPolicy = RetryPolicy::exponential(Duration::from_millis(50)).max_attempts(5);

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Trip {
    to: String,
    car: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Booking {
    what: String,
    number: String,
}

/// What can go wrong. The workflow gets it back as what it was.
#[derive(Debug, PartialEq, Serialize, Deserialize, FailureType)]
enum BookingError {
    /// Asking again does not make more of it.
    #[failure(terminal)]
    SoldOut {
        what: String,
    },
    Unreachable,
}

#[workflow]
async fn book_trip(ctx: WorkflowContext, trip: Trip) -> Result<Vec<Booking>, Failure> {
    // Each call says how it is undone, from what it returned. An `Err` from here undoes all that
    // was done, and only then is the run over.
    let flight = ctx.call(book(format!("flight to {}", trip.to)));
    let flight = flight.compensate_with(|booking| cancel_booking(booking.clone())).await?;
    let hotel = ctx.call(book(format!("hotel in {}", trip.to)));
    let hotel = hotel.compensate_with(|booking| cancel_booking(booking.clone())).await?;
    let car = ctx.call(book(trip.car)).compensate_with(|booking| cancel_booking(booking.clone()));
    let car = match car.await {
        Ok(car) => car,
        Err(failure) => {
            if let Some(BookingError::SoldOut { what }) = failure.as_error() {
                ctx.set_status(&format!("there is no {what}"));
            }
            return Err(failure);
        }
    };
    Ok(vec![flight, hotel, car])
}

/// The error is its own type, so the failure is of that type too.
#[activity(retry = PATIENT)]
async fn book(ctx: ActivityContext, what: String) -> Result<Booking, BookingError> {
    if what.contains("Isetta") {
        return Err(BookingError::SoldOut { what });
    }
    if what.contains("hotel") && ctx.attempt() == 1 {
        return Err(BookingError::Unreachable);
    }
    // The same key for every attempt: who drops repeats books once.
    Ok(Booking { what, number: ctx.idempotency_key() })
}

/// A compensation is an activity like others. Without a policy it is tried until it succeeds.
#[activity]
async fn cancel_booking(booking: Booking) -> Result<(), Failure> {
    println!("  cancelled: {}", booking.what);
    Ok(())
}

impl fmt::Display for BookingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BookingError::SoldOut { what } => write!(f, "there is no {what} left"),
            BookingError::Unreachable => f.write_str("the other side does not answer"),
        }
    }
}

impl std::error::Error for BookingError {}

fn trip(car: &str) -> Trip {
    Trip { to: "Rome".to_string(), car: car.to_string() }
}

#[tokio::main]
async fn main() -> resurgam::Result<()> {
    let file = std::env::args().nth(1).unwrap_or_else(|| "trips.db".to_string());
    let app = App::builder()
        .workflow(book_trip)
        .activity(book)
        .activity(cancel_booking)
        .sqlite(&file)
        .await?;
    for (id, car) in [("trip-1", "Fiat"), ("trip-2", "Isetta")] {
        match app.start(id, book_trip(trip(car))).await {
            Err(error) if !error.is_already_exists() => return Err(error),
            _ => println!("{id}: to Rome, by {car}"),
        }
        let Some(run) = app.instance::<Vec<Booking>>(id).await? else { continue };
        match run.result().await {
            Ok(bookings) => println!("  booked: {} things", bookings.len()),
            Err(error) => println!("  {error}"),
        }
        println!("{}", run.history().await?);
    }
    app.stop().await
}

#[cfg(test)]
mod tests {
    //! In virtual time, and with a crash at every commit.
    #![allow(clippy::unwrap_used)]

    use resurgam_testing::{Crash, TestApp};

    use super::*;

    async fn app() -> TestApp {
        TestApp::builder().workflow(book_trip).activity(book).activity(cancel_booking).start().await
    }

    #[tokio::test]
    async fn a_trip_that_can_be_booked_is_booked() {
        let app = app().await;
        let run = app.start("trip-1", book_trip(trip("Fiat"))).await;
        assert_eq!(run.result().await.unwrap().len(), 3);
        assert_eq!((app.attempts(book), app.attempts(cancel_booking)), (4, 0));
    }

    #[tokio::test]
    async fn what_was_booked_is_cancelled_wherever_the_process_dies() {
        let whole = app().await;
        let run = whole.start("trip-2", book_trip(trip("Isetta"))).await;
        let failure = run.failure().await;
        let sold_out = BookingError::SoldOut { what: "Isetta".to_string() };
        assert_eq!(failure.as_error(), Some(sold_out));
        for commit in 1..=whole.commits() {
            let app = app().await;
            app.faults().crash(Crash::AfterCommit(commit));
            let run = app.start("trip-2", book_trip(trip("Isetta"))).await;
            run.failure().await;
            let history = run.history().await;
            let undone: Vec<&str> =
                history.lines().filter(|line| line.contains("cancel_booking to undo")).collect();
            assert_eq!(undone.len(), 2, "crash after commit {commit}:\n{history}");
            assert!(undone[0].contains("hotel in Rome") && undone[1].contains("flight to Rome"));
            assert!(history.contains("RunFailed (compensation complete) SoldOut"), "{history}");
        }
    }
}
