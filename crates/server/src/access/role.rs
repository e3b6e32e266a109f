//! Roles, and what each of them may do.

use std::fmt;
use std::str::FromStr;

/// What a token may do.
///
/// ```
/// use resurgam_server::Role;
///
/// assert_eq!("operate".parse(), Ok(Role::Operate));
/// assert!(Role::Admin.may(Role::Operate) && Role::Operate.may(Role::Read));
/// assert!(!Role::Work.may(Role::Read));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Look at everything.
    Read,
    /// Start, signal and act as well.
    Operate,
    /// Run activities, and nothing else.
    Work,
    /// Everything, and make tokens.
    Admin,
}

impl Role {
    /// All of them.
    pub const ALL: [Role; 4] = [Role::Read, Role::Operate, Role::Work, Role::Admin];

    /// The name that is stored and shown.
    pub const fn name(self) -> &'static str {
        match self {
            Role::Read => "read",
            Role::Operate => "operate",
            Role::Work => "work",
            Role::Admin => "admin",
        }
    }

    /// Whether it may do what needs this role.
    pub const fn may(self, needed: Role) -> bool {
        match (self, needed) {
            (Role::Admin, _) | (Role::Operate, Role::Read | Role::Operate) => true,
            (Role::Read, Role::Read) | (Role::Work, Role::Work) => true,
            (Role::Operate | Role::Read | Role::Work, _) => false,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Role::ALL.into_iter().find(|role| role.name() == name);
        found.ok_or_else(|| format!("{name:?} is no role; write read, operate, work or admin"))
    }
}
