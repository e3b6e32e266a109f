//! Nodes beside the one of the drill, each a process of its own.

use std::net::SocketAddr;

use tokio::io::AsyncBufReadExt;
use tokio::process::{Child, ChildStdin, Command};

use super::payments::{Dependency, builder};
use crate::Result;
use crate::bed::{Bed, Place};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The address of the gateway.
    #[arg(long)]
    gateway: SocketAddr,
    /// There is a gate before it.
    #[arg(long)]
    gate: bool,
    /// The schema.
    #[arg(long)]
    schema: String,
    #[command(flatten)]
    bed: Bed,
}

/// Works until its standard input ends.
pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let place = arguments.bed.at(arguments.schema);
    let gateway = Dependency { address: arguments.gateway, gate: arguments.gate };
    let opened = place.open(builder(gateway)).await?;
    println!("works");
    let mut commands = tokio::io::BufReader::new(tokio::io::stdin()).lines();
    while commands.next_line().await?.is_some() {}
    opened.close().await
}

/// What a node is told: it works as the one of the drill does.
fn arguments(place: &Place, gateway: Dependency) -> Vec<String> {
    let address = gateway.address.to_string();
    let own = ["--schema", &place.schema, "--gateway", &address].map(String::from);
    let gate = gateway.gate.then(|| "--gate".to_string());
    place.arguments().into_iter().chain(own).chain(gate).collect()
}

/// The nodes that were begun.
pub(super) struct Nodes(Vec<(Child, ChildStdin)>);

impl Nodes {
    /// Begins so many, and waits until they work.
    pub(super) async fn begin(place: &Place, gateway: Dependency, count: u32) -> Result<Self> {
        let mut nodes = Vec::new();
        for _ in 0..count {
            let mut command = Command::new(std::env::current_exe()?);
            command.arg("node").args(arguments(place, gateway));
            let (process, commands, mut lines) = super::begin(command)?;
            lines.next_line().await?.ok_or("begin a node: see above")?;
            nodes.push((process, commands));
        }
        Ok(Nodes(nodes))
    }

    /// Stops them.
    pub(super) async fn end(self) -> Result<()> {
        for (mut process, commands) in self.0 {
            drop(commands);
            process.wait().await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;
    use resurgam_watchdog::test;

    #[derive(clap::Parser)]
    struct Told {
        #[command(flatten)]
        arguments: Arguments,
    }

    #[test]
    fn other_nodes_have_as_many_slots_and_lanes_as_that_of_the_drill() {
        let words =
            "node --store postgres://localhost/x --slots 7 --lanes 2 --schema s --gateway [::1]:80";
        let place = |words: Vec<String>| {
            let Told { arguments } = Told::try_parse_from(words).unwrap();
            arguments.bed.at(arguments.schema)
        };
        let own = place(words.split(' ').map(String::from).collect());
        let gateway = Dependency { address: "[::1]:80".parse().unwrap(), gate: true };
        let told = ["node".to_string()].into_iter().chain(arguments(&own, gateway)).collect();
        assert_eq!(format!("{:?}", place(told)), format!("{own:?}"));
    }
}
