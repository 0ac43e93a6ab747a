//! The files of a report.

use anyhow::Context;
use std::path::Path;

use crate::report_html;
use crate::results::Results;

/// Writes the results into `directory`, as JSON and as a page.
pub fn write_report(results: &Results, directory: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    let write = |extension: &str, text: String| {
        let path = directory.join(format!("{}.{extension}", results.benchmark));
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        println!("Written: {}", path.display());
        anyhow::Ok(())
    };
    write("json", serde_json::to_string_pretty(results)? + "\n")?;
    write("html", report_html::page(results))
}
