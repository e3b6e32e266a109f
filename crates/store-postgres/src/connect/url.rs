//! What a URL says that the driver does not know: what is asked of the server's certificate, and in
//! which schema the tables are.

use resurgam_store::{Error, Result};

use super::tls::Check;

/// A URL, or a list of settings, taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Url {
    /// What is left for the driver.
    pub(super) rest: String,
    /// What is asked of the server's certificate; `None` when there are no settings at all.
    pub(super) check: Option<Check>,
    /// The schema that the tables are in.
    pub(super) schema: Option<String>,
}

impl Url {
    /// Takes out of a URL what the driver does not know.
    pub(super) fn read(url: &str) -> Result<Url> {
        let (base, settings, between) = match url.split_once('?') {
            Some((base, settings)) => (base, settings.split('&').collect::<Vec<_>>(), "&"),
            None if url.contains("://") => {
                return Ok(Url { rest: url.to_string(), ..Url::default() });
            }
            None => ("", url.split_whitespace().collect(), " "),
        };
        let (mut check, mut schema) = (Check::default(), None);
        let mut rest = Vec::new();
        for setting in settings {
            match setting.split_once('=') {
                Some(("sslmode", "verify-ca")) => (check.require, check.authority) = (true, true),
                Some(("sslmode", "verify-full")) => {
                    (check.require, check.authority, check.name) = (true, true, true);
                }
                Some(("sslrootcert", "system")) => {}
                Some(("sslrootcert", path)) => {
                    check.roots = Some(decoded("sslrootcert", path)?.into());
                }
                Some(("schema", name)) => schema = Some(decoded("schema", name)?),
                _ => rest.push(setting),
            }
        }
        let rest = rest.join(between);
        let rest = match (base.is_empty(), rest.is_empty()) {
            (true, _) => rest,
            (false, true) => base.to_string(),
            (false, false) => format!("{base}?{rest}"),
        };
        Ok(Url { rest, check: Some(check), schema })
    }
}

/// A value as URLs write it.
fn decoded(name: &str, value: &str) -> Result<String> {
    let unreadable = || Error::unusable(format!("read {name} of the URL: {value:?}"));
    let mut bytes = Vec::new();
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next(), rest.next()].map(Option::unwrap_or_default);
                let digits = std::str::from_utf8(&digits).unwrap_or_default();
                u8::from_str_radix(digits, 16).map_err(|error| unreadable().because(error))?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).map_err(|error| unreadable().because(error))
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn what_the_driver_does_not_know_is_taken_out_of_the_url() {
        let full = Check { require: true, authority: true, name: true, roots: None };
        let table = [
            ("postgres://h/d", "postgres://h/d", None),
            (
                "postgres://h/d?sslmode=require",
                "postgres://h/d?sslmode=require",
                Some(Check::default()),
            ),
            ("postgres://h/d?sslmode=verify-full", "postgres://h/d", Some(full.clone())),
            (
                "postgres://h/d?sslmode=verify-full&connect_timeout=3&sslrootcert=%2Fca%20b.pem",
                "postgres://h/d?connect_timeout=3",
                Some(Check { roots: Some("/ca b.pem".into()), ..full.clone() }),
            ),
            (
                "host=h sslmode=verify-ca user=u",
                "host=h user=u",
                Some(Check { name: false, ..full.clone() }),
            ),
            ("postgres://h/d?sslmode=verify-full&sslrootcert=system", "postgres://h/d", Some(full)),
        ];
        for (url, rest, check) in table {
            let found = Url::read(url).expect("the URL is fine");
            assert_eq!((found.rest.as_str(), found.check), (rest, check), "{url}");
            assert_eq!(found.schema, None, "{url}");
        }
    }

    #[test]
    fn a_url_may_name_the_schema() {
        for (url, rest, schema) in [
            ("postgres://h/d?schema=billing", "postgres://h/d", "billing"),
            (
                "postgres://h/d?schema=two%20words&keepalives=1",
                "postgres://h/d?keepalives=1",
                "two words",
            ),
            ("host=h schema=billing", "host=h", "billing"),
        ] {
            let found = Url::read(url).expect("the URL is fine");
            assert_eq!((found.rest.as_str(), found.schema.as_deref()), (rest, Some(schema)));
        }
        let error = Url::read("postgres://h/d?schema=%zz").expect_err("that is no encoding");
        assert!(error.to_string().starts_with("read schema of the URL: \"%zz\""), "{error}");
    }
}
