//! The written forms of rules and schedules: reads what people type strictly, and what was stored
//! leniently.
//!
//! Writing is derived on the types themselves; fields at their default are left out.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::Value;

use super::options::{CATCH_UP, Overlap, Schedule};
use super::rule::{Rule, When};
use super::text;
use crate::config::{At, Fields, Problem, Problems};

const OVERLAPS: [(&str, Overlap); 3] =
    [("skip", Overlap::Skip), ("buffer_one", Overlap::BufferOne), ("allow", Overlap::Allow)];

impl Rule {
    /// Reads a rule from its JSON form: `{"cron": "0 9 * * *", "zone": "Europe/Berlin"}`,
    /// `{"every": "5m"}`, or a cron expression alone. The rule is checked, and every problem is
    /// reported.
    ///
    /// ```
    /// use resurgam_core::schedule::Rule;
    /// use serde_json::json;
    ///
    /// assert_eq!(Rule::from_value(&json!("@daily"))?, Rule::cron("@daily"));
    /// let error = Rule::from_value(&json!({"cron": "61 * * * *"})).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "cron: \"61 * * * *\" has \"61\" in field 1 (minute), which is out of range; \
    ///      write 0 to 59"
    /// );
    /// # Ok::<(), resurgam_core::config::Problems>(())
    /// ```
    pub fn from_value(value: &Value) -> Result<Self, Problems> {
        let at = At::root(value);
        let rule = match value {
            Value::String(expression) => Rule::cron(expression.clone()),
            _ => {
                let mut fields = at.fields("a rule: {\"cron\": ...} or {\"every\": ...}")?;
                let rule = rule(&mut fields);
                fields.finish()?;
                rule.expect("a rule without problems was read")
            }
        };
        rule.check()?;
        Ok(rule)
    }
}

impl Schedule {
    /// Reads a schedule from its JSON form: the fields of the rule beside its own. It is checked,
    /// and every problem is reported.
    ///
    /// ```
    /// use resurgam_core::schedule::{Rule, Schedule};
    /// use serde_json::json;
    ///
    /// let schedule = json!({"id": "report", "cron": "0 9 * * MON-FRI", "zone": "Europe/Berlin"});
    /// let rule = Rule::cron("0 9 * * MON-FRI").in_zone("Europe/Berlin");
    /// assert_eq!(Schedule::from_value(&schedule)?, Schedule::new("report", rule));
    /// # Ok::<(), resurgam_core::config::Problems>(())
    /// ```
    pub fn from_value(value: &Value) -> Result<Self, Problems> {
        Ok(Schedule::read(&At::root(value))?.check()?.into_inner())
    }

    /// The form that is stored: versioned, and read leniently.
    pub fn to_stored(&self) -> String {
        serde_json::to_string(&StoredSchedule { v: 1, schedule: self })
            .expect("a schedule holds nothing that JSON cannot")
    }

    /// Reads the stored form, also of a newer version: what it does not know, it ignores.
    ///
    /// ```
    /// use resurgam_core::schedule::{Rule, Schedule};
    ///
    /// let schedule = Schedule::new("nightly", Rule::cron("@daily"));
    /// assert_eq!(Schedule::from_stored(&schedule.to_stored()), Ok(schedule));
    /// ```
    pub fn from_stored(text: &str) -> Result<Self, Problems> {
        let unreadable = |error| Problem::new("", format!("the stored schedule: {error}"));
        let value: Value = serde_json::from_str(text).map_err(unreadable)?;
        Schedule::read(&At::stored(&value["schedule"]))
    }

    /// Reads a schedule without checking it.
    fn read(at: &At<'_>) -> Result<Self, Problems> {
        let mut fields = at.fields("a schedule: {\"id\": ..., \"cron\": ...}")?;
        let id = fields.require("id", |at| at.text().map(str::to_string)).unwrap_or_default();
        let rule = rule(&mut fields);
        let overlap = fields.read("overlap", |at| at.word(&OVERLAPS)).unwrap_or_default();
        let catch_up = fields.read("catch_up", At::duration).unwrap_or(CATCH_UP);
        let jitter = fields.read("jitter", At::duration).unwrap_or_default();
        let paused = fields.read("paused", At::flag).unwrap_or(false);
        let not_before = fields.read("not_before", text::read);
        let not_after = fields.read("not_after", text::read);
        fields.finish()?;
        let rule = rule.expect("a schedule without problems has a rule");
        let id = Cow::Owned(id);
        Ok(Schedule { id, rule, overlap, catch_up, jitter, paused, not_before, not_after })
    }
}

/// The fields of a rule. `None` when there is a problem, which the fields keep.
fn rule(fields: &mut Fields<'_>) -> Option<Rule> {
    let given = (fields.get("cron").is_some(), fields.get("every").is_some());
    let cron = fields.read("cron", |at| at.text().map(|text| When::Cron(text.to_string().into())));
    let every = fields.read("every", |at| at.duration().map(When::Every));
    let zone = fields.read("zone", |at| at.text().map(|name| Cow::Owned(name.to_string())));
    let anchor = fields.read("anchor", text::read);
    let when = match given {
        (true, true) => {
            let message = "every: stands beside cron; a schedule has one of them";
            fields.report(Problem::new("every", message));
            None
        }
        (false, false) => {
            let message = "cron: missing; write \"cron\": \"0 9 * * *\" or \"every\": \"5m\"";
            fields.report(Problem::new("cron", message));
            None
        }
        _ => cron.or(every),
    };
    when.map(|when| Rule { when, zone, anchor })
}

#[derive(Serialize)]
struct StoredSchedule<'a> {
    v: u32,
    schedule: &'a Schedule,
}

impl<'de> Deserialize<'de> for Rule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Rule::from_value(&value).map_err(de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Schedule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Schedule::from_value(&value).map_err(de::Error::custom)
    }
}
