//! `quartet cluster`: asks a node of a cluster about all of them, and hands the home over.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::admin::{Server, exchange};

#[derive(Args)]
pub struct ClusterArguments {
    #[command(flatten)]
    server: Server,
    /// Prints JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    request: Request,
}

#[derive(Subcommand)]
enum Request {
    /// Which node is home, and how far each of the others is behind it
    Status,
    /// The nodes that are there, and where they are reached
    Nodes,
    /// Makes another node home; no write that was begun is lost
    HandOver {
        /// The node's name
        to: String,
    },
}

const CLUSTER: &str = "/admin/v1/cluster";
/// How long a hand-over may take.
const HAND_OVER_TIMEOUT: Duration = Duration::from_secs(20);

pub fn cluster(arguments: &ClusterArguments) -> Result<()> {
    let server = &arguments.server;
    if let Request::HandOver { to } = &arguments.request {
        hand_over(server, to)?;
    }
    let described = describe(server)?;
    match &arguments.request {
        _ if arguments.json => println!("{described:#}"),
        Request::Status | Request::HandOver { .. } => print_status(&described),
        Request::Nodes => print_nodes(&described),
    }
    Ok(())
}

fn describe(server: &Server) -> Result<Value> {
    let (status, answer) = exchange(server, "GET", CLUSTER, "")?;
    if status != 200 {
        bail!("the server answers {status}: {}", answer.trim());
    }
    serde_json::from_str(&answer).context("an answer that is not JSON")
}

/// The home that answers is the one that goes, and may close the connection first.
fn hand_over(server: &Server, to: &str) -> Result<()> {
    let body = json!({ "to": to }).to_string();
    let asked = exchange(server, "POST", &format!("{CLUSTER}/hand-over"), &body);
    if let Ok((status, answer)) = &asked
        && *status == 409
    {
        bail!("the home stays: {}", answer.trim());
    }
    let until = Instant::now() + HAND_OVER_TIMEOUT;
    loop {
        if describe(server).is_ok_and(|described| described["home"] == to) {
            return Ok(());
        }
        if Instant::now() >= until {
            bail!("{to} is not home yet; `quartet cluster status` tells which node is");
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn print_status(described: &Value) {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    println!(
        "cluster {}, term {}, home {}",
        text(&described["cluster"]),
        described["term"],
        text(&described["home"])
    );
    for node in described["nodes"].as_array().into_iter().flatten() {
        let part = if node["is_home"] == true { "home" } else { "follows" };
        println!(
            "{:<20}{part:<9}applied {:<12} on disk {:<12} clock {:+} ms",
            text(&node["name"]),
            text(&node["applied"]),
            text(&node["synced"]),
            node["clock_ahead_milliseconds"].as_i64().unwrap_or_default(),
        );
    }
}

fn print_nodes(described: &Value) {
    for node in described["nodes"].as_array().into_iter().flatten() {
        let text = |name: &str| node[name].as_str().unwrap_or_default().to_owned();
        println!("{:<20}{} at {}", text("name"), text("id"), text("address"));
        for (name, address) in node["endpoints"].as_object().into_iter().flatten() {
            println!("    {name:<10}{}", address.as_str().unwrap_or_default());
        }
    }
}
