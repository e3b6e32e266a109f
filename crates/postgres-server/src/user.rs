//! Who runs the server: PostgreSQL refuses to run as root.

use std::path::Path;
use std::process::Command;

/// The user that the server runs as; none when that is whoever runs the tests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct User {
    ids: Option<(u32, u32)>,
}

/// The user that packages make for the server.
const NAME: &str = "postgres";

impl User {
    /// The user for this process.
    pub(crate) fn find() -> Result<User, String> {
        if id(&["-u"]).as_deref() != Some("0") {
            return Ok(User { ids: None });
        }
        let ids = [id(&["-u", NAME]), id(&["-g", NAME])].map(|id| id?.parse().ok());
        match ids {
            [Some(user), Some(group)] => Ok(User { ids: Some((user, group)) }),
            _ => Err(format!(
                "PostgreSQL refuses to run as root, and there is no user {NAME} to run it as; run \
                 the tests as another user, or make that one: useradd --system {NAME}"
            )),
        }
    }

    /// Makes a command run as this user.
    pub(crate) fn run<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        #[cfg(unix)]
        if let Some((user, group)) = self.ids {
            use std::os::unix::process::CommandExt;
            command.uid(user).gid(group);
        }
        command
    }

    /// Gives a folder to this user.
    pub(crate) fn give(&self, folder: &Path) -> std::io::Result<()> {
        #[cfg(unix)]
        if let Some((user, group)) = self.ids {
            std::os::unix::fs::chown(folder, Some(user), Some(group))?;
        }
        let _ = folder;
        Ok(())
    }
}

fn id(arguments: &[&str]) -> Option<String> {
    let output = Command::new("id").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_string())
}
