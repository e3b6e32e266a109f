//! The address of a server, as `--server` takes it.

use std::fmt;

use crate::trouble::{Mistake, Trouble};

/// Where a server is, and what its paths begin with there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) is_encrypted: bool,
    /// The name or the address of the host, without brackets.
    pub(super) host: String,
    pub(super) port: u16,
    /// What stands before every path: nothing, or `/ops`.
    pub(super) base: String,
}

impl Address {
    /// Reads an address. What is wrong with it is said without it where it may hold a secret.
    pub(super) fn parse(text: &str) -> Result<Self, Trouble> {
        let refused = |why: &str| {
            let mistake = Mistake::new(format!("--server: {why}"));
            Trouble::from(mistake.hint("write https://HOST, http://HOST:PORT or https://HOST/BASE"))
        };
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(refused("the address has neither http:// nor https:// before it"));
        };
        let is_encrypted = match scheme {
            "https" => true,
            "http" => false,
            _ => return Err(refused(&format!("{scheme}:// is neither http:// nor https://"))),
        };
        if rest.contains('@') {
            return Err(refused("a name or a token is no part of the address"));
        }
        if rest.contains(['?', '#']) {
            return Err(refused("the address ends with its path"));
        }
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let is_plain = |c: char| c.is_ascii_graphic() && !"<>\"\\^`{}|".contains(c);
        if !authority.chars().chain(path.chars()).all(is_plain) {
            return Err(refused("the address has characters that addresses have not"));
        }
        let (host, port) = parts(authority).ok_or_else(|| refused("its port is no number"))?;
        if host.is_empty() {
            return Err(refused("the address names no host"));
        }
        let base = match path.trim_matches('/') {
            "" => String::new(),
            path => format!("/{path}"),
        };
        let port = port.unwrap_or(if is_encrypted { 443 } else { 80 });
        Ok(Address { is_encrypted, host: host.to_string(), port, base })
    }

    /// The host and the port, as requests name them.
    pub(super) fn authority(&self) -> String {
        let usual = if self.is_encrypted { 443 } else { 80 };
        let host =
            if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        match self.port == usual {
            true => host,
            false => format!("{host}:{}", self.port),
        }
    }

    /// True for an address of this machine.
    pub(super) fn is_local(&self) -> bool {
        let ip = self.host.parse::<std::net::IpAddr>();
        self.host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
    }
}

/// The host and the port; the port is `None` where none is named.
fn parts(authority: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            (host, rest.strip_prefix(':').or(rest.is_empty().then_some(""))?)
        }
        None => authority.split_once(':').unwrap_or((authority, "")),
    };
    match port {
        "" => Some((host, None)),
        port => Some((host, Some(port.parse().ok()?))),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_encrypted { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.base)
    }
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn an_address_is_a_host_with_a_port_and_a_base() {
        for (text, told, local) in [
            ("http://127.0.0.1:8460", "http://127.0.0.1:8460", true),
            ("http://localhost:8460/", "http://localhost:8460", true),
            ("https://ops.example", "https://ops.example", false),
            ("https://ops.example:443/resurgam/", "https://ops.example/resurgam", false),
            ("http://[::1]:8460/a/b", "http://[::1]:8460/a/b", true),
            ("http://[::1]", "http://[::1]", true),
        ] {
            let address = Address::parse(text).unwrap();
            assert_eq!((address.to_string().as_str(), address.is_local()), (told, local), "{text}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused_and_a_token_in_it_is_not_repeated() {
        let told = |text: &str| {
            let output = Address::parse(text).unwrap_err().output(false);
            anstream::adapter::strip_str(&output.stderr).to_string()
        };
        for (text, why) in [
            ("ops.example:8460", "neither http:// nor https:// before it"),
            ("ftp://ops.example", "ftp:// is neither"),
            ("http://", "names no host"),
            ("http://a:b", "its port is no number"),
            ("http://a/?x=1", "ends with its path"),
            ("http://a b/", "characters that addresses have not"),
            ("http://ada:rsg_1_secret@a", "is no part of the address"),
        ] {
            let told = told(text);
            assert!(told.contains(why) && !told.contains("secret"), "{text}: {told}");
            assert!(told.contains("write https://HOST"), "{told}");
        }
    }
}
