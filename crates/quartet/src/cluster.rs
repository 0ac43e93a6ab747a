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
    /// Makes all nodes write the newest format that each of them reads: the last step of a rolling
    /// upgrade, after which no node can go back to the previous program
    FinishUpgrade,
    /// Starts a new log from this node's folder, while no node runs and etcd has lost the cluster
    /// or was restored from an old state; takes the options of `serve` for that node
    Adopt(Box<AdoptArguments>),
    /// Ends the cluster, while no node runs: a server then opens this node's folder without --log,
    /// or the folder founds another cluster; takes the options of `serve` for the last home
    End(Box<EndArguments>),
}

#[derive(Args)]
struct EndArguments {
    #[command(flatten)]
    serve: ServeArguments,
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
        Request::FinishUpgrade => return finish_upgrade(server, arguments.json),
        Request::Adopt(adopting) => return adopt(adopting, arguments.json),
        Request::End(ending) => return end(ending, arguments.json),
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
        bail!("the server answers {status}: {}{}", answer.trim(), missing_key(status));
    }
    serde_json::from_str(&answer).context("an answer that is not JSON")
}

/// The answering node is the home that steps down, and may close the connection first.
fn hand_over(server: &Server, to: &str) -> Result<()> {
    let body = json!({ "to": to }).to_string();
    let response = exchange(server, "POST", &format!("{CLUSTER}/hand-over"), &body);
    if let Ok((status, answer)) = &response
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
        bail!("the server answers {status}: {}{}", answer.trim(), missing_key(status));
    }
    Ok(())
}

fn finish_upgrade(server: &Server, is_json: bool) -> Result<()> {
    let (status, answer) = exchange(server, "POST", &format!("{CLUSTER}/finish-upgrade"), "")?;
    if status != 200 {
        bail!("the server answers {status}: {}{}", answer.trim(), missing_key(status));
    }
    if is_json {
        println!("{}", answer.trim());
        return Ok(());
    }
    let answer: Value = serde_json::from_str(&answer).context("an answer that is not JSON")?;
    println!("all nodes write format {}", answer["format"]);
    Ok(())
}

/// The option that a refused request lacks.
fn missing_key(status: u16) -> &'static str {
    match status {
        401 | 403 => ": give the root key with --key or QUARTET_ROOT_KEY",
        _ => "",
    }
}

fn adopt(arguments: &AdoptArguments, is_json: bool) -> Result<()> {
    let settings = arguments.serve.clone().with_file()?.validated()?;
    let adopted = quartet_server::adopt(&settings, &arguments.from, arguments.accept_loss)?;
    if is_json {
        let report = json!({
            "cluster": adopted.cluster,
            "from": adopted.from,
            "last": adopted.lasts,
            "term": adopted.term,
        });
        println!("{report:#}");
        return Ok(());
    }
    println!(
        "cluster {} continues after record {} of cluster {}, in term {}",
        adopted.cluster,
        listed(&adopted.lasts),
        adopted.from,
        adopted.term
    );
    println!("start {} first, then the other nodes: they copy it", arguments.from);
    Ok(())
}

fn end(arguments: &EndArguments, is_json: bool) -> Result<()> {
    let settings = arguments.serve.clone().with_file()?.validated()?;
    let ended = quartet_server::end_cluster(&settings)?;
    if is_json {
        println!("{:#}", json!({ "cluster": ended.cluster, "last": ended.lasts }));
        return Ok(());
    }
    println!(
        "cluster {} has ended after record {}",
        ended.cluster,
        listed(&ended.lasts)
    );
    println!("a server opens this folder without --log, or it founds another cluster with another --log");
    Ok(())
}

/// One number for each partition.
fn listed(numbers: &[u64]) -> String {
    let texts: Vec<String> = numbers.iter().map(u64::to_string).collect();
    texts.join(", ")
}

fn print_status(described: &Value) {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let or_none = |value: &Value| match value.is_null() {
        true => "none yet".to_owned(),
        false => text(value),
    };
    println!(
        "cluster {}, term {}, home {}, {} nodes configured",
        text(&described["cluster"]),
        or_none(&described["term"]),
        or_none(&described["home"]),
        described["configured"]
    );
    let homes = described["homes"].as_array().filter(|homes| homes.len() > 1);
    for partition in homes.into_iter().flatten() {
        println!(
            "partition {:<10} term {:<6} home {}",
            text(&partition["partition"]),
            or_none(&partition["term"]),
            or_none(&partition["home"])
        );
    }
    for node in described["nodes"].as_array().into_iter().flatten() {
        print_node_status(node);
    }
    print_formats(described);
    let etcd = &described["etcd"];
    for member in etcd["members"].as_array().into_iter().flatten() {
        let endpoint = text(&member["endpoint"]);
        if member["answers"] == false {
            println!("etcd {endpoint:<20} does not answer");
            continue;
        }
        println!(
            "etcd {endpoint:<20} {}  {} of {} MiB{}",
            text(&member["version"]),
            mebibytes(&member["file_bytes"]),
            mebibytes(&member["quota_bytes"]),
            if member["is_leader"] == true { "  leader" } else { "" }
        );
    }
    if let (Some(records), Some(budget)) = (etcd["records_bytes"].as_u64(), etcd["budget_bytes"].as_u64()) {
        println!(
            "records in etcd: {} of {} MiB, {} %",
            records >> 20,
            budget >> 20,
            records.saturating_mul(100) / budget.max(1)
        );
    }
}

/// While nodes write an earlier format than all of them read, or than some do.
fn print_formats(described: &Value) {
    let nodes = || described["nodes"].as_array().into_iter().flatten();
    let numbers = |name: &'static str| nodes().filter_map(move |node| node["formats"][name].as_u64());
    let (written, newest) = (numbers("written").min(), numbers("newest"));
    let (Some(written), Some(oldest_program), Some(newest)) = (written, newest.clone().min(), newest.max()) else {
        return;
    };
    if oldest_program > written {
        println!("nodes write format {written} and read {oldest_program}: `quartet cluster finish-upgrade`");
    } else if newest > oldest_program {
        println!("nodes write format {written}; some have a program of format {newest}");
    }
}

fn print_node_status(node: &Value) {
    let name = node["name"].as_str().unwrap_or_default();
    if node["is_running"] == false {
        println!("{name:<20} away");
        return;
    }
    let part = match (node["is_home"] == true, node["condition"].as_str().unwrap_or_default()) {
        (true, condition) => format!("home, {condition}"),
        (false, condition) => condition.to_owned(),
    };
    let clock = match node["clock_ahead_milliseconds"].as_i64() {
        Some(ahead) => format!("clock {ahead:+} ms"),
        None => "clock not known".to_owned(),
    };
    println!(
        "{name:<20} {part:<15} applied {:<12} on disk {:<12} behind {} records, {} ms  {clock}  {} MiB free",
        node["applied"].as_u64().unwrap_or_default(),
        node["synced"].as_u64().unwrap_or_default(),
        node["lag_records"],
        node["lag_milliseconds"],
        mebibytes(&node["disk_free_bytes"]),
    );
    if let Some(mismatches) = node["state_mismatches"].as_u64().filter(|count| *count > 0) {
        println!(
            "{:<20} its state has differed from the home's {mismatches} times, and was copied anew",
            ""
        );
    }
}

fn mebibytes(bytes: &Value) -> String {
    bytes
        .as_u64()
        .map_or_else(|| "?".to_owned(), |bytes| (bytes >> 20).to_string())
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
