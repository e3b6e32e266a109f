//! Networks, as `--trusted-proxy` names them.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Addresses that begin alike.
///
/// ```
/// use resurgam_server::Network;
///
/// let network: Network = "10.1.0.0/16".parse().unwrap();
/// assert!(network.contains("10.1.2.3".parse().unwrap()));
/// assert!(!network.contains("10.2.0.1".parse().unwrap()));
/// assert_eq!(network.to_string(), "10.1.0.0/16");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    /// How many bits they have in common.
    bits: u8,
}

impl Network {
    /// Whether an address is one of them.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(of), IpAddr::V4(one)) => {
                begin_alike(of.to_bits().into(), one.to_bits().into(), 32, self.bits)
            }
            (IpAddr::V6(of), IpAddr::V6(one)) => {
                begin_alike(of.to_bits(), one.to_bits(), 128, self.bits)
            }
            _ => false,
        }
    }
}

fn begin_alike(one: u128, other: u128, width: u8, bits: u8) -> bool {
    let ignored = u32::from(width.saturating_sub(bits));
    (one ^ other).checked_shr(ignored).unwrap_or(0) == 0
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?}: write a network such as 10.0.0.0/8, or an address");
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), |bits| bits.parse::<u8>().map_err(|_| wrong()))?;
        match bits <= most {
            true => Ok(Network { address: address.to_canonical(), bits }),
            false => Err(wrong()),
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn a_network_has_the_addresses_that_begin_as_it_does() {
        let has = |network: &str, address: &str| {
            network.parse::<Network>().unwrap().contains(address.parse().unwrap())
        };
        assert!(has("127.0.0.1", "127.0.0.1") && !has("127.0.0.1", "127.0.0.2"));
        assert!(has("0.0.0.0/0", "9.9.9.9") && !has("0.0.0.0/0", "::2"));
        assert!(has("fd00::/8", "fd12::1") && !has("fd00::/8", "fe80::1"));
        assert!(has("10.0.0.0/8", "::ffff:10.1.1.1"), "one of IPv4 in the clothes of IPv6");
        for wrong in ["", "10.0.0.0/33", "10.0.0/8", "::/129", "10.0.0.0/x"] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
    }
}
