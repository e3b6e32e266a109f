//! Secrets: in clear only where a template is read and where a node runs, encrypted in between.
//!
//! Each is encrypted by itself with XChaCha20-Poly1305 under a random nonce, and bound to its name:
//! what was stored under one name cannot be read under another. The stored form is the url-safe
//! base64 of nonce and ciphertext.

use std::collections::BTreeMap;
use std::fmt;

use base64ct::{Base64, Base64Unpadded, Base64Url, Base64UrlUnpadded, Encoding};
use chacha20poly1305::aead::{Aead, Generate, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use serde::{Deserialize, Serialize};
use zeroize::{Zeroize, Zeroizing};

/// The environment variable that holds the key.
pub const KEY_VARIABLE: &str = "RESURGAM_SECRETS_KEY";

/// How many bytes of the stored form are the nonce.
const NONCE: usize = 24;

/// What secrets are encrypted with: 32 bytes. It is wiped from memory when it is dropped.
///
/// ```
/// use resurgam_graph::SecretsKey;
///
/// let text = SecretsKey::generate_text(); // for RESURGAM_SECRETS_KEY
/// let key = SecretsKey::from_text(&text)?;
/// let stored = key.encrypt("api_key", "hunter2");
/// assert_eq!(*key.decrypt("api_key", &stored)?, "hunter2");
/// assert!(key.decrypt("password", &stored).is_err());
/// # Ok::<(), resurgam_graph::SecretsError>(())
/// ```
#[derive(Clone)]
pub struct SecretsKey(Zeroizing<[u8; 32]>);

/// Why a key or a secret cannot be read. It tells nothing about what they hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretsError(String);

impl fmt::Display for SecretsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SecretsError {}

impl SecretsKey {
    /// A new key as text, from the randomness of the operating system.
    pub fn generate_text() -> Zeroizing<String> {
        let mut key = Key::generate();
        let text = Zeroizing::new(Base64::encode_string(&key));
        key.zeroize();
        text
    }

    /// Reads a key: 32 bytes in base64, of either alphabet, with or without padding.
    pub fn from_text(text: &str) -> Result<Self, SecretsError> {
        let text = text.trim();
        let bytes = decode(text).ok_or_else(|| wrong_key("it is not base64"))?;
        let count = bytes.len();
        let key = <[u8; 32]>::try_from(bytes.as_slice());
        key.map(|key| SecretsKey(Zeroizing::new(key)))
            .map_err(|_| wrong_key(&format!("it has {count} bytes, not 32")))
    }

    /// Encrypts a secret.
    pub fn encrypt(&self, name: &str, secret: &str) -> String {
        let nonce = XNonce::generate();
        let payload = Payload { msg: secret.as_bytes(), aad: name.as_bytes() };
        let sealed = self.cipher().encrypt(&nonce, payload);
        let sealed = sealed.expect("a secret is far below the 256 GiB that can be encrypted");
        Base64Url::encode_string(&[nonce.as_slice(), &sealed].concat())
    }

    /// Decrypts a secret.
    pub fn decrypt(&self, name: &str, stored: &str) -> Result<Zeroizing<String>, SecretsError> {
        let wrong = || {
            SecretsError(format!(
                "secret {name} cannot be decrypted: it was encrypted with another key than the one \
             in {KEY_VARIABLE}, or changed since"
            ))
        };
        let bytes = Base64Url::decode_vec(stored).map_err(|_| wrong())?;
        let (nonce, sealed) = bytes.split_at_checked(NONCE).ok_or_else(wrong)?;
        let nonce = XNonce::try_from(nonce).map_err(|_| wrong())?;
        let payload = Payload { msg: sealed, aad: name.as_bytes() };
        let clear = self.cipher().decrypt(&nonce, payload).map_err(|_| wrong())?;
        let clear = String::from_utf8(clear).map_err(|_| wrong())?;
        Ok(Zeroizing::new(clear))
    }

    /// What tells keys apart and gives nothing of them away: twelve hexadecimal digits, for
    /// messages and for finding the key that is missing.
    ///
    /// ```
    /// use resurgam_graph::SecretsKey;
    ///
    /// let key = SecretsKey::from_text("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")?;
    /// assert_eq!(key.fingerprint(), "e564b513bf8e");
    /// # Ok::<(), resurgam_graph::SecretsError>(())
    /// ```
    pub fn fingerprint(&self) -> String {
        // The tag of nothing: no secret is encrypted under this nonce, which is not random.
        let payload = Payload { msg: b"", aad: b"fingerprint" };
        let sealed = self.cipher().encrypt(&XNonce::default(), payload);
        let tag = sealed.expect("nothing is far below the 256 GiB that can be encrypted");
        tag.iter().take(6).map(|byte| format!("{byte:02x}")).collect()
    }

    /// What a process lacks that does not have the key of this fingerprint, in words; also what one
    /// provides that has it.
    pub fn need(fingerprint: &str) -> String {
        format!("secrets key {fingerprint}")
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new(&Key::from(*self.0))
    }
}

fn wrong_key(what: &str) -> SecretsError {
    SecretsError(format!(
        "{KEY_VARIABLE} is not a key: {what}; make one with `resurgam secrets new-key`"
    ))
}

/// Reads base64 of either alphabet, with or without padding.
fn decode(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    let url_safe = text.contains(['-', '_']);
    let decoded = match (url_safe, text.ends_with('=')) {
        (true, true) => Base64Url::decode_vec(text),
        (true, false) => Base64UrlUnpadded::decode_vec(text),
        (false, true) => Base64::decode_vec(text),
        (false, false) => Base64Unpadded::decode_vec(text),
    };
    decoded.ok().map(Zeroizing::new)
}

impl fmt::Debug for SecretsKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretsKey")
    }
}

/// The secrets of a template, in clear. Only their names can be seen.
#[derive(Clone, Default)]
pub(crate) struct Secrets(BTreeMap<String, Zeroizing<String>>);

impl Secrets {
    pub(crate) fn insert(&mut self, name: &str, value: &str) {
        self.0.insert(name.to_string(), Zeroizing::new(value.to_string()));
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn encrypted(&self, key: &SecretsKey) -> EncryptedSecrets {
        let encrypt =
            |(name, value): (&String, &Zeroizing<String>)| (name.clone(), key.encrypt(name, value));
        let values = self.0.iter().map(encrypt).collect();
        EncryptedSecrets { values, key: Some(key.fingerprint()) }
    }
}

/// The secrets of a run, by their names, and the fingerprint of the key that reads them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct EncryptedSecrets {
    pub(crate) values: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    fn key() -> SecretsKey {
        SecretsKey::from_text(&SecretsKey::generate_text()).unwrap()
    }

    #[test]
    fn the_same_secret_looks_different_every_time_and_comes_back() {
        let key = key();
        let (first, second) = (key.encrypt("a", "hunter2"), key.encrypt("a", "hunter2"));
        assert_ne!(first, second);
        for stored in [first, second] {
            assert_eq!(*key.decrypt("a", &stored).unwrap(), "hunter2");
        }
        for value in ["", "ü", &"x".repeat(100_000)] {
            assert_eq!(*key.decrypt("a", &key.encrypt("a", value)).unwrap(), *value);
        }
    }

    #[test]
    fn another_key_another_name_and_a_changed_text_are_refused() {
        let key = key();
        let stored = key.encrypt("a", "hunter2");
        assert!(self::key().decrypt("a", &stored).is_err());
        assert!(key.decrypt("b", &stored).is_err());
        for end in 0..stored.len() {
            assert!(key.decrypt("a", &stored[..end]).is_err());
            let mut changed = stored.clone().into_bytes();
            changed[end] = if changed[end] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert!(key.decrypt("a", &changed).is_err());
        }
    }

    #[test]
    fn a_key_is_thirty_two_bytes_in_any_base64() {
        let bytes = [0xfb_u8; 32];
        let forms = [
            Base64::encode_string(&bytes),
            Base64Url::encode_string(&bytes),
            Base64Unpadded::encode_string(&bytes),
            Base64UrlUnpadded::encode_string(&bytes),
        ];
        for form in &forms {
            assert_eq!(*SecretsKey::from_text(&format!(" {form}\n")).unwrap().0, bytes);
        }
        for (text, what) in [
            ("no base64!", "RESURGAM_SECRETS_KEY is not a key: it is not base64"),
            ("aGVsbG8=", "RESURGAM_SECRETS_KEY is not a key: it has 5 bytes, not 32"),
        ] {
            let error = SecretsKey::from_text(text).unwrap_err().to_string();
            assert!(
                error.starts_with(what) && error.ends_with("`resurgam secrets new-key`"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_fingerprint_is_that_of_one_key_and_always_the_same() {
        let (one, other) = (key(), key());
        assert_eq!(one.fingerprint(), one.fingerprint());
        assert_ne!(one.fingerprint(), other.fingerprint());
        assert_eq!(one.fingerprint().len(), 12);
    }

    #[test]
    fn neither_keys_nor_secrets_show_when_they_are_printed() {
        let mut secrets = Secrets::default();
        secrets.insert("api_key", "hunter2");
        assert_eq!(format!("{secrets:?} {:?}", key()), "{\"api_key\"} SecretsKey");
    }
}
