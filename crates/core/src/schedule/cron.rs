//! Cron expressions on the wall clock: which seconds of the calendar one names.
//!
//! Nothing here knows a time zone. A wall time is a number of seconds, counted as if the clock on
//! the wall showed UTC; [`super::zone`] says when a wall clock shows it.
//!
//! The grammar is that of crontab(5), with seconds in front if wanted and with `L`, `W` and `#` for
//! days. It is read strictly, each field with its own message: an expression that means something
//! else than its author thinks is found out months later. We read and search it ourselves, because
//! the crates that do so take `JANFEB` for December or search `, * * * *` for seconds; the tests
//! compare our answers with theirs where both mean the same.

use std::ops::Range;

use jiff::tz::Offset;

use crate::config::cut;

/// Which seconds of the calendar an expression names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cron {
    seconds: Set,
    minutes: Set,
    hours: Set,
    days: Days,
    months: Set,
    weekdays: Weekdays,
}

/// Small numbers, one bit each.
type Set = u64;

/// What the field for the day of the month says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Days {
    on: Set,
    /// `15W`: the weekday nearest to the 15th, in the same month.
    nearest: Set,
    /// `L`: the last day.
    last: bool,
    /// `LW`: the last weekday.
    last_weekday: bool,
    /// It begins with a star, so the other field alone may decide.
    star: bool,
}

/// What the field for the day of the week says; Sunday is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Weekdays {
    on: Set,
    /// `MON#2`: the second Monday of the month; the first is at index 0.
    nth: [Set; 5],
    /// `FRIL`: the last Friday of the month.
    last: Set,
    star: bool,
}

const DAY: i64 = 86_400;

/// The calendar repeats itself after 400 years, so a day that none of them has never comes.
const CYCLE: i64 = 146_097;

impl Cron {
    /// The first wall time from this one on (included) that the expression names.
    pub(super) fn next(&self, from: i64) -> Option<i64> {
        let today = from.div_euclid(DAY);
        self.days(today..today + CYCLE).find_map(|day| {
            let earliest = if day == today { from.rem_euclid(DAY) } else { 0 };
            self.time_from(earliest).map(|time| day * DAY + time)
        })
    }

    /// How many wall times of the range it names. Takes a moment per month, not per firing.
    pub(super) fn count(&self, range: Range<i64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let (first, last) = (range.start.div_euclid(DAY), range.end.div_euclid(DAY));
        let days: u32 = self.months(first..last).map(|(_, days)| days.count_ones()).sum();
        let (hours, minutes) = (self.hours.count_ones(), self.minutes.count_ones());
        let a_day = u64::from(hours * minutes * self.seconds.count_ones());
        // Whole days, without the beginning of the first and with the beginning of the last.
        u64::from(days) * a_day + self.since_midnight(range.end) - self.since_midnight(range.start)
    }

    /// The days of a range that match, as numbers of days since 1970.
    fn days(&self, range: Range<i64>) -> impl Iterator<Item = i64> {
        self.months(range).flat_map(|(first_day, days)| {
            (1..=31).filter(move |day| has(days, *day)).map(move |day| first_day + day - 1)
        })
    }

    /// The months of a range of days: the number of each first day, and which of its days match.
    fn months(&self, range: Range<i64>) -> impl Iterator<Item = (i64, Set)> {
        let mut next = Month::with(range.start);
        std::iter::from_fn(move || {
            let month = next.filter(|month| month.first_day < range.end)?;
            next = Some(month.following());
            Some((month.first_day, self.matching(month) & month.within(&range)))
        })
    }

    /// The days of a month that the three fields for dates allow. As in crontab(5): when both the
    /// day of the month and the day of the week are restricted, either is enough.
    fn matching(&self, month: Month) -> Set {
        if !has(self.months, month.number) {
            return 0;
        }
        let (days, weekdays) = (self.days.of(month), self.weekdays.of(month));
        let both = self.days.star || self.weekdays.star;
        if both { days & weekdays } else { days | weekdays }
    }

    /// The first time of a day, from this second of it on.
    fn time_from(&self, second: i64) -> Option<i64> {
        let (hour, minute, second) = parts(second);
        if has(self.hours, hour) {
            if has(self.minutes, minute)
                && let Some(second) = first(self.seconds, second)
            {
                return Some(hour * 3600 + minute * 60 + second);
            }
            if let Some(minute) = first(self.minutes, minute + 1) {
                return Some(hour * 3600 + minute * 60 + first(self.seconds, 0)?);
            }
        }
        let hour = first(self.hours, hour + 1)?;
        Some(hour * 3600 + first(self.minutes, 0)? * 60 + first(self.seconds, 0)?)
    }

    /// How many times there are on the day of a wall time before it.
    fn since_midnight(&self, wall: i64) -> u64 {
        let today = wall.div_euclid(DAY);
        if self.days(today..today + 1).next().is_none() {
            return 0;
        }
        let (hour, minute, second) = parts(wall.rem_euclid(DAY));
        let below = |set: Set, value: i64| u64::from((set & ((1 << value) - 1)).count_ones());
        let seconds = u64::from(self.seconds.count_ones());
        let mut count = below(self.hours, hour) * u64::from(self.minutes.count_ones()) * seconds;
        if has(self.hours, hour) {
            count += below(self.minutes, minute) * seconds;
            if has(self.minutes, minute) {
                count += below(self.seconds, second);
            }
        }
        count
    }
}

impl Days {
    fn of(&self, month: Month) -> Set {
        let end = month.length;
        let mut days = self.on & month.all();
        for meant in (1..=end).filter(|day| has(self.nearest, *day)) {
            days |= 1 << month.nearest_weekday(meant);
        }
        if self.last {
            days |= 1 << end;
        }
        if self.last_weekday {
            days |= 1 << month.nearest_weekday_before(end);
        }
        days
    }
}

impl Weekdays {
    fn of(&self, month: Month) -> Set {
        let mut days = month.on_weekdays(self.on);
        for (week, set) in self.nth.iter().enumerate() {
            days |= month.on_weekdays(*set) & (0x7F << (7 * week + 1));
        }
        // The last seven days hold the last of each weekday.
        days | month.on_weekdays(self.last) & (0x7F << (month.length - 6))
    }
}

/// A month of the calendar.
#[derive(Clone, Copy, Debug)]
struct Month {
    year: i64,
    /// From 1.
    number: i64,
    /// How many days it has.
    length: i64,
    /// The number of its first day, counted from 1970.
    first_day: i64,
    /// The weekday of its first day.
    weekday: i64,
}

impl Month {
    /// The month of a day.
    fn with(day: i64) -> Option<Month> {
        let midnight = jiff::Timestamp::from_second(day.checked_mul(DAY)?).ok()?;
        let date = Offset::UTC.to_datetime(midnight).date();
        let first = date.first_of_month();
        Some(Month {
            year: date.year().into(),
            number: date.month().into(),
            length: date.days_in_month().into(),
            first_day: day - i64::from(date.day() - 1),
            weekday: first.weekday().to_sunday_zero_offset().into(),
        })
    }

    fn following(self) -> Month {
        let (year, number) =
            if self.number == 12 { (self.year + 1, 1) } else { (self.year, self.number + 1) };
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let length = match number {
            2 if leap => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        let first_day = self.first_day + self.length;
        Month { year, number, length, first_day, weekday: (self.weekday + self.length) % 7 }
    }

    /// All days, each as a bit.
    fn all(self) -> Set {
        (2 << self.length) - 2
    }

    /// The days that lie in a range.
    fn within(self, range: &Range<i64>) -> Set {
        let before = (range.start - self.first_day).clamp(0, self.length);
        let until = (range.end - self.first_day).clamp(0, self.length);
        ((2 << until) - 1) & !((2 << before) - 1)
    }

    /// The days that are one of these weekdays.
    fn on_weekdays(self, set: Set) -> Set {
        let week = (set >> self.weekday | set << (7 - self.weekday)) & 0x7F;
        let days = (0..5).fold(0, |days, n| days | week << (7 * n));
        days << 1 & self.all()
    }

    /// Saturday becomes Friday and Sunday becomes Monday, but never in another month.
    fn nearest_weekday(self, day: i64) -> i64 {
        match (self.weekday + day - 1) % 7 {
            6 if day == 1 => 3,
            0 if day < self.length => day + 1,
            _ => self.nearest_weekday_before(day),
        }
    }

    fn nearest_weekday_before(self, day: i64) -> i64 {
        match (self.weekday + day - 1) % 7 {
            6 => day - 1,
            0 => day - 2,
            _ => day,
        }
    }
}

fn parts(second: i64) -> (i64, i64, i64) {
    (second / 3600, second / 60 % 60, second % 60)
}

fn has(set: Set, value: i64) -> bool {
    set >> value & 1 == 1
}

fn first(set: Set, from: i64) -> Option<i64> {
    // Nothing counts further than 59, so the shift never takes all 64 bits.
    let rest = set >> from << from;
    (rest != 0).then(|| i64::from(rest.trailing_zeros()))
}

/// One field of an expression.
struct Field {
    name: &'static str,
    min: u8,
    max: u8,
    /// Names for its values, from `min` on.
    names: &'static [&'static str],
}

const FIELDS: [Field; 6] = [
    Field { name: "second", min: 0, max: 59, names: &[] },
    Field { name: "minute", min: 0, max: 59, names: &[] },
    Field { name: "hour", min: 0, max: 23, names: &[] },
    Field { name: "day of the month", min: 1, max: 31, names: &[] },
    Field { name: "month", min: 1, max: 12, names: &MONTHS },
    Field { name: "day of the week", min: 0, max: 7, names: &WEEKDAYS },
];
const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

const NICKNAMES: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// The longest expression we read. A list of every minute and every hour is shorter.
const LONGEST: usize = 500;

/// Reads an expression. The error is everything that is wrong with it; each entry continues a
/// sentence that begins with the expression.
pub(super) fn parse(text: &str) -> Result<Cron, Vec<String>> {
    if text.len() > LONGEST {
        return Err(vec![format!("is longer than {LONGEST} characters")]);
    }
    let fields = split(text).map_err(|what| vec![what])?;
    let shift = if fields.len() == 5 { 1 } else { 0 };
    let mut cron = Cron {
        seconds: 1,
        minutes: 0,
        hours: 0,
        days: Days::default(),
        months: 0,
        weekdays: Weekdays::default(),
    };
    let mut problems = Vec::new();
    for (index, text) in fields.iter().enumerate() {
        let field = &FIELDS[index + shift];
        let read = match index + shift {
            0 => values(field, text).map(|set| cron.seconds = set),
            1 => values(field, text).map(|set| cron.minutes = set),
            2 => values(field, text).map(|set| cron.hours = set),
            3 => days(field, text).map(|days| cron.days = days),
            4 => values(field, text).map(|set| cron.months = set),
            _ => weekdays(field, text).map(|weekdays| cron.weekdays = weekdays),
        };
        if let Err((part, what)) = read {
            let (number, name) = (index + 1, field.name);
            let part = cut(&part);
            problems.push(format!("has \"{part}\" in field {number} ({name}), which {what}"));
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    if cron.next(0).is_none() {
        return Err(vec![
            "never comes: no month it names has such a day; write a day that exists, or L for \
             the last day of the month"
                .into(),
        ]);
    }
    Ok(cron)
}

/// The fields of an expression: five, or six with seconds.
fn split(text: &str) -> Result<Vec<&str>, String> {
    let fields: Vec<&str> = text.split_whitespace().collect();
    let example = "such as \"0 9 * * MON-FRI\" (minute, hour, day of the month, month, day of \
        the week)";
    match fields.as_slice() {
        [] => Err(format!("is empty; write five fields, {example}")),
        [zone, ..] if zone.contains("TZ=") => {
            Err("names its time zone; leave that out and give the zone apart".into())
        }
        [name] if name.starts_with('@') => match nickname(name) {
            Some(meaning) => Ok(meaning.split(' ').collect()),
            None => {
                let names: Vec<&str> = NICKNAMES.iter().map(|(name, _)| *name).collect();
                Err(format!("is unknown; use one of {}", names.join(", ")))
            }
        },
        _ if matches!(fields.len(), 5 | 6) => Ok(fields),
        _ if fields.len() == 7 => Err("has 7 fields; write 5, or 6 with seconds in front. Years \
            are bounded with not_before and not_after"
            .into()),
        _ => Err(format!(
            "has {} field{}; write five, {example}, or six with seconds in front",
            fields.len(),
            if fields.len() == 1 { "" } else { "s" }
        )),
    }
}

fn nickname(name: &str) -> Option<&'static str> {
    let known = NICKNAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    known.map(|(_, meaning)| *meaning)
}

/// What a part of a field is, and what is wrong with it.
type Wrong = (String, String);

fn wrong<T>(part: &str, what: impl Into<String>) -> Result<T, Wrong> {
    Err((part.to_string(), what.into()))
}

/// The entries of a list.
fn entries(text: &str) -> Result<Vec<&str>, Wrong> {
    let entries: Vec<&str> = text.split(',').collect();
    if entries.contains(&"") {
        return wrong(text, "has an empty entry; take out the extra comma");
    }
    Ok(entries)
}

fn values(field: &Field, text: &str) -> Result<Set, Wrong> {
    let mut set = 0;
    for entry in entries(text)? {
        set |= range(field, entry)?;
    }
    Ok(set)
}

fn days(field: &Field, text: &str) -> Result<Days, Wrong> {
    let mut days = Days { star: free(text), ..Days::default() };
    for entry in entries(if text == "?" { "*" } else { text })? {
        match entry.to_ascii_uppercase().as_str() {
            "L" => days.last = true,
            "LW" => days.last_weekday = true,
            upper => match upper.strip_suffix('W') {
                Some(day) => days.nearest |= 1 << value(field, entry, day)?,
                None => days.on |= range(field, entry)?,
            },
        }
    }
    Ok(days)
}

fn weekdays(field: &Field, text: &str) -> Result<Weekdays, Wrong> {
    let mut weekdays = Weekdays { star: free(text), ..Weekdays::default() };
    for entry in entries(if text == "?" { "*" } else { text })? {
        let upper = entry.to_ascii_uppercase();
        if let Some((day, nth)) = upper.split_once('#') {
            let day = value(field, entry, day)? % 7;
            match digits(nth) {
                Some(nth @ 1..=5) => weekdays.nth[usize::from(nth) - 1] |= 1 << day,
                _ => return wrong(entry, "counts no week of a month; write #1 to #5, or MONL"),
            }
        } else if let Some(day) = upper.strip_suffix('L').filter(|day| !day.is_empty()) {
            weekdays.last |= 1 << (value(field, entry, day)? % 7);
        } else {
            weekdays.on |= range(field, entry)?;
        }
    }
    // 7 is Sunday too.
    weekdays.on = (weekdays.on | weekdays.on >> 7) & 0x7F;
    Ok(weekdays)
}

/// As in crontab(5), a field for days that begins with a star leaves the choice to the other one.
fn free(text: &str) -> bool {
    text.starts_with('*') || text == "?"
}

/// `*`, `5`, `1-5`, `*/10` or `1-30/5`.
fn range(field: &Field, entry: &str) -> Result<Set, Wrong> {
    let (span, step) = match entry.split_once('/') {
        Some((span, step)) => (span, Some(step)),
        None => (entry, None),
    };
    let (start, end) = match span.split_once('-') {
        // Sunday is also 7, which a star need not count twice.
        None if span == "*" => (field.min, if field.max == 7 { 6 } else { field.max }),
        None => {
            let start = value(field, entry, span)?;
            if step.is_some() {
                let (max, step) = (field.max, step.unwrap_or_default());
                return wrong(entry, format!("steps from one value; write {start}-{max}/{step}"));
            }
            (start, start)
        }
        Some((start, end)) => {
            let (start, end) = (value(field, entry, start)?, value(field, entry, end)?);
            (start, if field.max == 7 && end == 0 && start > 0 { 7 } else { end })
        }
    };
    if end < start {
        let (min, max) = (field.min, if field.max == 7 { 6 } else { field.max });
        return wrong(entry, format!("runs backwards; write {start}-{max},{min}-{end}"));
    }
    let step = step.map_or(Ok(1), |step| stride(field, entry, step))?;
    Ok((start..=end).step_by(step).fold(0, |set, value| set | 1 << value))
}

fn stride(field: &Field, entry: &str, step: &str) -> Result<usize, Wrong> {
    match digits(step) {
        Some(0) => wrong(entry, "has a step of 0; write 1 or more"),
        Some(step) if step <= field.max => Ok(step.into()),
        Some(_) => {
            let (name, max) = (field.name, field.max);
            let what = format!(
                "has a step that no {name} can take; write at most {max}, or use an interval, \
                 such as every 90m"
            );
            wrong(entry, what)
        }
        None => wrong(entry, "has no number as its step; write a step such as */5"),
    }
}

/// One value by number or name.
fn value(field: &Field, entry: &str, text: &str) -> Result<u8, Wrong> {
    if let Some(index) = field.names.iter().position(|name| name.eq_ignore_ascii_case(text)) {
        return Ok(u8::try_from(index).unwrap_or(0) + field.min);
    }
    let (min, max) = (field.min, field.max);
    let names = match field.names {
        [first, .., last] => format!(" or {first} to {last}"),
        _ => String::new(),
    };
    match digits(text) {
        Some(value) if (min..=max).contains(&value) => Ok(value),
        Some(_) => wrong(entry, format!("is out of range; write {min} to {max}{names}")),
        None => {
            let name = field.name;
            wrong(entry, format!("is not a {name}; write {min} to {max}{names}, or *"))
        }
    }
}

/// A number as it is written in an expression; too large ones are 255, which no field allows.
fn digits(text: &str) -> Option<u8> {
    let number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    number.then(|| text.parse().unwrap_or(u8::MAX))
}
