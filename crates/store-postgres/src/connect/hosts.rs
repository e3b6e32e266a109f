//! The hosts of a URL, each as an address of its own.
//!
//! The driver takes the first host that answers. Which one is meant depends on what all of them
//! say, so each is asked by itself.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio_postgres::Config;
use tokio_postgres::config::Host as Address;

/// One host of a URL.
#[derive(Debug)]
pub(super) struct Host {
    /// What is needed to connect to this one.
    pub(super) config: Config,
    /// Its name and port, for people.
    pub(super) name: String,
}

/// The hosts of a URL, and what was last seen of them.
#[derive(Debug)]
pub(super) struct Hosts {
    pub(super) all: Vec<Host>,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    /// Which one was the primary when all were asked, and when that was.
    primary: Option<(usize, Instant)>,
    /// Those that did not answer when all were asked last.
    silent: Vec<usize>,
}

/// For so long it is not asked again which host is the primary: a process makes its connections at
/// about the same time.
const FRESH: Duration = Duration::from_secs(1);

impl Hosts {
    pub(super) fn new(config: &Config) -> Hosts {
        let all = (0..count(config)).map(|place| host(config, place)).collect();
        Hosts { all, seen: Mutex::default() }
    }

    /// The host that was the primary a moment ago.
    pub(super) fn fresh(&self) -> Option<usize> {
        let primary = self.seen().primary;
        primary.filter(|(_, at)| at.elapsed() < FRESH).map(|(place, _)| place)
    }

    /// Whether a host did not answer when all were asked last.
    pub(super) fn was_silent(&self, place: usize) -> bool {
        self.seen().silent.contains(&place)
    }

    /// The names of those that did not answer when all were asked last.
    pub(super) fn silent_names(&self) -> Vec<String> {
        self.seen().silent.iter().map(|place| self.all[*place].name.clone()).collect()
    }

    /// All were asked: this one is the primary, and these did not answer.
    pub(super) fn asked(&self, primary: Option<usize>, silent: Vec<usize>) {
        let primary = primary.map(|place| (place, Instant::now()));
        *self.seen() = Seen { primary, silent };
    }

    /// Where they are, for people.
    pub(super) fn names(&self) -> String {
        self.all.iter().map(|host| host.name.as_str()).collect::<Vec<_>>().join(",")
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many hosts there are.
pub(super) fn count(config: &Config) -> usize {
    config.get_hosts().len().max(config.get_hostaddrs().len())
}

/// The host at this place, with everything that holds for all of them.
fn host(all: &Config, place: usize) -> Host {
    let mut config = shared(all);
    let port = all.get_ports().get(place).or(all.get_ports().first()).copied().unwrap_or(5432);
    config.port(port);
    let number = all.get_hostaddrs().get(place).copied();
    if let Some(number) = number {
        config.hostaddr(number);
    }
    let name = match (all.get_hosts().get(place), number) {
        (Some(Address::Tcp(name)), _) => {
            config.host(name);
            name.clone()
        }
        #[cfg(unix)]
        (Some(Address::Unix(path)), _) => {
            config.host_path(path);
            path.display().to_string()
        }
        (None, Some(number)) => number.to_string(),
        (None, None) => String::new(),
    };
    Host { config, name: format!("{name}:{port}") }
}

/// What holds for all hosts.
fn shared(all: &Config) -> Config {
    let mut config = Config::new();
    if let Some(user) = all.get_user() {
        config.user(user);
    }
    if let Some(password) = all.get_password() {
        config.password(password);
    }
    if let Some(database) = all.get_dbname() {
        config.dbname(database);
    }
    if let Some(options) = all.get_options() {
        config.options(options);
    }
    if let Some(name) = all.get_application_name() {
        config.application_name(name);
    }
    if let Some(time) = all.get_connect_timeout() {
        config.connect_timeout(*time);
    }
    if let Some(time) = all.get_tcp_user_timeout() {
        config.tcp_user_timeout(*time);
    }
    if let Some(time) = all.get_keepalives_interval() {
        config.keepalives_interval(time);
    }
    if let Some(count) = all.get_keepalives_retries() {
        config.keepalives_retries(count);
    }
    config
        .keepalives(all.get_keepalives())
        .keepalives_idle(all.get_keepalives_idle())
        .ssl_mode(all.get_ssl_mode())
        .ssl_negotiation(all.get_ssl_negotiation())
        .channel_binding(all.get_channel_binding());
    config
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn every_host_of_a_url_has_its_own_port_and_what_holds_for_all() {
        let url = "postgres://ada:secret@one:1,two:2/orders?connect_timeout=3&sslmode=require\
                   &options=-c%20jit%3Doff&application_name=till&keepalives_idle=7";
        let whole: Config = url.parse().unwrap();
        let hosts = Hosts::new(&whole);
        assert_eq!(hosts.names(), "one:1,two:2");
        for (place, host) in hosts.all.iter().enumerate() {
            assert_eq!(host.config.get_hosts(), &whole.get_hosts()[place..=place]);
            assert_eq!(host.config.get_ports(), &whole.get_ports()[place..=place]);
            // All the rest is as it was: put the other host back and compare.
            let mut rest: Config = format!("host={}", ["one", "two"][place]).parse().unwrap();
            rest.port([1, 2][place]).user("ada").password("secret").dbname("orders");
            rest.connect_timeout(Duration::from_secs(3)).ssl_mode(whole.get_ssl_mode());
            rest.options("-c jit=off").application_name("till");
            rest.keepalives_idle(Duration::from_secs(7));
            assert_eq!(host.config, rest);
        }
    }

    #[test]
    fn one_port_holds_for_all_hosts() {
        let whole: Config = "host=one,/run/two hostaddr=10.0.0.1,10.0.0.2 port=7".parse().unwrap();
        assert_eq!(Hosts::new(&whole).names(), "one:7,/run/two:7");
        let numbers: Config = "hostaddr=10.0.0.1 user=ada".parse().unwrap();
        assert_eq!(Hosts::new(&numbers).names(), "10.0.0.1:5432");
    }
}
