//! `quartet cluster`: lists the nodes of a cluster, hands the home over, removes a node, and founds
//! a new cluster from a node's data.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::admin_api::{Server, exchange};
use crate::settings::ServeArguments;

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
    /// Shows which node is home (leader), and how far each of the others lags
    Status,
    /// Lists the nodes and their addresses
    Nodes,
    /// Makes another node home; no write in progress is lost
    HandOver {
        /// The node's name
        to: String,
    },
    /// Removes a node that has left permanently, so that the log no longer waits for it
    Remove {
        /// The node's name
        node: String,
    },
    /// Starts a new log from this node's folder, while no node runs and etcd has lost the cluster
    /// or was restored from an old state; takes the options of `serve` for that node
    Adopt(Box<AdoptArguments>),
}

#[derive(Args)]
struct AdoptArguments {
    /// Name of the node of this folder: the node with the most records
    #[arg(long)]
    from: String,
    /// Continues although another node has more records, or etcd's log has grown without this node:
    /// records that this node does not have are lost
    #[arg(long)]
    accept_loss: bool,
    #[command(flatten)]
    serve: ServeArguments,
}

const CLUSTER: &str = "/admin/v1/cluster";
/// Time limit of a hand-over.
const HAND_OVER_TIMEOUT: Duration = Duration::from_secs(20);

pub fn cluster(arguments: &ClusterArguments) -> Result<()> {
    let server = &arguments.server;
    match &arguments.request {
        Request::HandOver { to } => hand_over(server, to)?,
        Request::Remove { node } => remove(server, node)?,
        Request::Adopt(adopting) => return adopt(adopting, arguments.json),
        Request::Status | Request::Nodes => {}
    }
    let described = describe(server)?;
    match &arguments.request {
        _ if arguments.json => println!("{described:#}"),
        Request::Nodes => print_nodes(&described),
        _ => print_status(&described),
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

/// The answering node is the home that steps down, and may close the connection first.
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
            bail!("{to} is not home yet; `quartet cluster status` shows which node is");
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn remove(server: &Server, node: &str) -> Result<()> {
    let body = json!({ "node": node }).to_string();
    let (status, answer) = exchange(server, "POST", &format!("{CLUSTER}/remove"), &body)?;
    if status != 204 {
        bail!("the server answers {status}: {}", answer.trim());
    }
    Ok(())
}

fn adopt(arguments: &AdoptArguments, is_json: bool) -> Result<()> {
    let settings = arguments.serve.clone().with_file()?.validated()?;
    let adopted = quartet_server::adopt(&settings, &arguments.from, arguments.accept_loss)?;
    if is_json {
        let shown = json!({
            "cluster": adopted.cluster,
            "from": adopted.from,
            "last": adopted.last,
            "term": adopted.term,
        });
        println!("{shown:#}");
        return Ok(());
    }
    println!(
        "cluster {} continues after record {} of cluster {}, in term {}",
        adopted.cluster, adopted.last, adopted.from, adopted.term
    );
    println!("start {} first, then the other nodes: they copy it", arguments.from);
    Ok(())
}

fn print_status(described: &Value) {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    println!(
        "cluster {}, term {}, home {}, {} nodes configured",
        text(&described["cluster"]),
        described["term"],
        text(&described["home"]),
        described["configured"]
    );
    let homes = described["homes"].as_array().filter(|homes| homes.len() > 1);
    for partition in homes.into_iter().flatten() {
        println!(
            "partition {:<10}term {:<6} home {}",
            text(&partition["partition"]),
            text(&partition["term"]),
            partition["home"].as_str().unwrap_or("none")
        );
    }
    for node in described["nodes"].as_array().into_iter().flatten() {
        if node["is_running"] == false {
            println!("{:<20}away", text(&node["name"]));
            continue;
        }
        let part = if node["is_home"] == true { "home" } else { "follows" };
        println!(
            "{:<20}{part:<9}applied {:<12} on disk {:<12} behind {} records, {} ms  clock {:+} ms",
            text(&node["name"]),
            text(&node["applied"]),
            text(&node["synced"]),
            node["lag_records"],
            node["lag_milliseconds"],
            node["clock_ahead_milliseconds"].as_i64().unwrap_or_default(),
        );
        if let Some(mismatches) = node["state_mismatches"].as_u64().filter(|count| *count > 0) {
            println!(
                "{:<20}its state has differed from the home's {mismatches} times, and was copied anew",
                ""
            );
        }
    }
}

fn print_nodes(described: &Value) {
    for node in described["nodes"].as_array().into_iter().flatten() {
        let text = |name: &str| node[name].as_str().unwrap_or_default().to_owned();
        if node["is_running"] == false {
            println!("{:<20}{} is away", text("name"), text("id"));
            continue;
        }
        println!("{:<20}{} at {}", text("name"), text("id"), text("address"));
        for (name, address) in node["endpoints"].as_object().into_iter().flatten() {
            println!("    {name:<10}{}", address.as_str().unwrap_or_default());
        }
    }
}
