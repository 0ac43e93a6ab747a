//! `quartet convert`: brings a data directory from one engine to the other.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Args;
use quartet_engine::StoreKind;
use quartet_env::{RealDisk, SystemClock};
use quartet_server::partition_folders;

use crate::check::progress;
use crate::settings::DEFAULT_DATA;

#[derive(Args)]
pub struct ConvertArguments {
    /// Directory that holds the data; no server may be using it
    #[arg(long, env = "QUARTET_DATA", default_value = DEFAULT_DATA)]
    data: PathBuf,
    /// The engine that opens it afterwards
    #[arg(long, value_parser = ["memory", "ssd"])]
    to: String,
}

pub fn convert(arguments: &ConvertArguments) -> Result<()> {
    let to = StoreKind::parse(&arguments.to).context("an engine is memory or ssd")?;
    anyhow::ensure!(
        arguments.data.is_dir(),
        "there is no directory {}",
        arguments.data.display()
    );
    for folder in partition_folders(&arguments.data)? {
        let data = folder.display();
        let disk = RealDisk::open(&folder).with_context(|| format!("opening {data}"))?;
        let converted = quartet_engine::convert(Arc::new(disk), Arc::new(SystemClock), to, &mut progress())?;
        match converted {
            true => println!("{data} is the {} engine's now", to.name()),
            false => println!("{data} is the {} engine's already", to.name()),
        }
    }
    Ok(())
}
