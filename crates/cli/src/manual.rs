//! `resurgam completions` and `resurgam man`: the command line describes itself.

use std::io;
use std::path::PathBuf;

use clap::Subcommand;
use clap_complete::Shell;

use crate::help;
use crate::output::Output;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Print completions for a shell
    ///
    /// Where they go is for the shell to say; the examples are the usual places.
    #[command(after_help = help::COMPLETIONS)]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page, or write all of them into a folder
    #[command(after_help = help::MAN)]
    Man {
        /// Write a page for each command into this folder
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
}

/// Runs a command. The error is one of writing files.
pub(crate) fn run(command: Command, cli: &mut clap::Command) -> io::Result<Output> {
    let mut page = Vec::new();
    match command {
        Command::Completions { shell } => {
            clap_complete::generate(shell, cli, "resurgam", &mut page);
        }
        Command::Man { dir: Some(dir) } => {
            std::fs::create_dir_all(&dir)?;
            clap_mangen::generate_to(cli.clone(), &dir)?;
        }
        Command::Man { dir: None } => clap_mangen::Man::new(cli.clone()).render(&mut page)?,
    }
    Ok(Output::done(String::from_utf8_lossy(&page).into_owned()))
}
