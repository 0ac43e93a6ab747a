//! Results as one self-contained page: no external script, style sheet, font or picture.
//!
//! Published figures are next to the measured ones in columns of their own, always with the
//! hardware they were measured on.

use crate::published::{self, Figures};
use crate::results::{Cell, Results};
use crate::svg;
use std::fmt::Write;

pub fn page(results: &Results) -> String {
    let title = format!("{} benchmark: {}", results.benchmark, results.target.version);
    let mut html = String::new();
    let _ = write!(
        html,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    );
    let _ = writeln!(
        html,
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
    );
    let _ = write!(
        html,
        "<title>{0}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{0}</h1>\n",
        escaped(&title)
    );
    let _ = writeln!(html, "<p>{}</p>", escaped(&results.request));
    circumstances(&mut html, results);
    html.push_str("<h2>Summary</h2>\n");
    match results.benchmark.as_str() {
        "product" => product_summary(&mut html, results),
        "ycsb" => ycsb_summary(&mut html, results),
        "calvin" => calvin_summary(&mut html, results),
        "search" => measured_table(&mut html, results),
        "vectors" => vectors_summary(&mut html, results),
        _ => news_summary(&mut html, results),
    }
    results.cells.iter().for_each(|cell| section(&mut html, cell));
    html + "</body>\n</html>\n"
}

fn circumstances(html: &mut String, results: &Results) {
    let (target, settings, machine) = (&results.target, &results.settings, &results.machine);
    let started_by = if target.embedded {
        "started by the benchmark"
    } else {
        "given"
    };
    let model = machine.processor_model.as_deref().unwrap_or("unknown model");
    let rows = [
        (
            "Server",
            format!("{} at {} ({started_by})", target.version, target.address),
        ),
        (
            "Load from",
            format!(
                "{} processors ({model}), Quartet {}",
                machine.processors, results.quartet_version
            ),
        ),
        ("Started", results.started_at.clone()),
        (
            "Settings",
            format!(
                "{} s a test, seed {}, closed loop, warm connections",
                settings.seconds, settings.seed
            ),
        ),
    ];
    html.push_str("<table class=\"facts\">\n");
    for (name, value) in rows {
        let _ = writeln!(html, "<tr><th>{name}</th><td>{}</td></tr>", escaped(&value));
    }
    html.push_str("</table>\n");
}

const MEASURED_COLUMNS: &str = "<th>test</th><th>parallelism</th><th>per minute</th><th>per second</th><th>p50 ms</th>\
     <th>p99 ms</th><th>p99.2 ms</th><th>max ms</th><th>errors</th><th>server CPU µs</th><th>client CPU µs</th>";

fn product_summary(html: &mut String, results: &Results) {
    html.push_str("<div class=\"wide\"><table>\n<thead><tr><th colspan=\"11\">measured here</th>");
    html.push_str("<th class=\"published\" colspan=\"2\">published, with their hardware</th></tr>\n<tr>");
    html.push_str(MEASURED_COLUMNS);
    html.push_str("<th class=\"published\">Lambda Store<br>per minute; p50 / p99.2 / max ms</th>");
    html.push_str("<th class=\"published\">FaunaDB<br>per minute; p50 / p99.2 / max ms</th></tr></thead>\n<tbody>\n");
    for cell in &results.cells {
        let row = published::product(&cell.test, cell.parallelism);
        let figures = |figures: Option<&Figures>| figures.map_or_else(|| "–".to_owned(), published_figures);
        let _ = write!(html, "<tr>{}", measured_columns(cell));
        let _ = write!(
            html,
            "<td class=\"published\">{}</td>",
            figures(row.map(|row| &row.lambda_store))
        );
        let _ = writeln!(
            html,
            "<td class=\"published\">{}</td></tr>",
            figures(row.map(|row| &row.fauna_db))
        );
    }
    html.push_str("</tbody></table></div>\n");
    published_note(html, published::PRODUCT_CIRCUMSTANCES);
}

fn ycsb_summary(html: &mut String, results: &Results) {
    let _ = writeln!(
        html,
        "<div class=\"wide\"><table>\n<thead><tr>{MEASURED_COLUMNS}<th class=\"published\">published, with their hardware:<br>\
         FaunaDB per second, 4 / 8 / 16 vCPU</th></tr></thead>\n<tbody>"
    );
    for cell in &results.cells {
        let as_text = |figure: Option<u32>| figure.map_or_else(|| "–".to_owned(), |figure| grouped(figure.into()));
        let figures = published::ycsb(&cell.test, cell.parallelism);
        let figures = figures.map_or_else(|| "–".to_owned(), |figures| figures.map(as_text).join(" / "));
        let _ = writeln!(
            html,
            "<tr>{}<td class=\"published\">{figures}</td></tr>",
            measured_columns(cell)
        );
    }
    html.push_str("</tbody></table></div>\n");
    published_note(html, published::YCSB_CIRCUMSTANCES);
}

fn calvin_summary(html: &mut String, results: &Results) {
    measured_table(html, results);
    let _ = writeln!(
        html,
        "<table>\n<thead><tr><th class=\"published\" colspan=\"2\">published, with their hardware</th></tr></thead>\n<tbody>\n\
         <tr><td class=\"published\">FaunaDB</td><td class=\"published\">{} per second</td></tr>\n</tbody></table>",
        grouped(published::CALVIN_PER_SECOND.into())
    );
    published_note(html, published::CALVIN_CIRCUMSTANCES);
}

fn vectors_summary(html: &mut String, results: &Results) {
    let _ = writeln!(
        html,
        "<div class=\"wide\"><table>\n<thead><tr>{MEASURED_COLUMNS}<th>recall</th></tr></thead>\n<tbody>"
    );
    for cell in &results.cells {
        let recall = cell
            .recall
            .map_or_else(|| "–".to_owned(), |recall| format!("{recall:.4}"));
        let _ = writeln!(html, "<tr>{}<td>{recall}</td></tr>", measured_columns(cell));
    }
    html.push_str("</tbody></table></div>\n");
}

fn measured_table(html: &mut String, results: &Results) {
    let _ = write!(
        html,
        "<div class=\"wide\"><table>\n<thead><tr>{MEASURED_COLUMNS}</tr></thead>\n<tbody>\n"
    );
    for cell in &results.cells {
        let _ = writeln!(html, "<tr>{}</tr>", measured_columns(cell));
    }
    html.push_str("</tbody></table></div>\n");
}

fn news_summary(html: &mut String, results: &Results) {
    measured_table(html, results);
    html.push_str("<table>\n<thead><tr><th class=\"published\" colspan=\"2\">");
    html.push_str("published, with their hardware</th></tr></thead>\n<tbody>\n");
    for (system, p99_ms) in published::NEWS_P99_MS {
        let _ = writeln!(
            html,
            "<tr><td class=\"published\">{system}</td><td class=\"published\">p99 about {p99_ms} ms</td></tr>"
        );
    }
    html.push_str("</tbody></table>\n");
    published_note(html, published::NEWS_CIRCUMSTANCES);
}

fn published_note(html: &mut String, circumstances: &str) {
    let _ = writeln!(html, "<p class=\"published\">{}</p>", escaped(circumstances));
}

fn measured_columns(cell: &Cell) -> String {
    let ms = |us: u64| us as f64 / 1e3;
    let latency = &cell.latency_us;
    let cpu = |us: Option<f64>| us.map_or_else(|| "–".to_owned(), |us| format!("{us:.2}"));
    format!(
        "<td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{:.3}</td><td>{:.3}</td><td>{:.3}</td><td>{:.3}</td>\
         <td>{}</td><td>{}</td><td>{}</td>",
        escaped(&cell.test),
        cell.parallelism,
        grouped(cell.requests_per_minute.round() as u64),
        grouped(cell.requests_per_second.round() as u64),
        ms(latency.at(0.5)),
        ms(latency.p99),
        ms(latency.at(0.9921875)),
        ms(latency.max),
        cell.errors,
        cpu(cell.server_cpu_us_per_request),
        cpu(cell.client_cpu_us_per_request),
    )
}

fn published_figures(figures: &Figures) -> String {
    let [p50, p99_2, max] = figures.latency_ms;
    format!(
        "{}; {p50} / {p99_2} / {max}",
        grouped(figures.requests_per_minute.into())
    )
}

/// A heading, the two drawings, and the published table of latencies.
fn section(html: &mut String, cell: &Cell) {
    let _ = writeln!(
        html,
        "<h2>{}, parallelism {}</h2>",
        escaped(&cell.test),
        cell.parallelism
    );
    if let Some(first) = &cell.first_error {
        let _ = writeln!(html, "<p>{} errors, the first: {}</p>", cell.errors, escaped(first));
    }
    let _ = writeln!(html, "<div class=\"cell\">\n<figure>{}", svg::curve(cell));
    let _ = writeln!(
        html,
        "<figcaption>Latency by percentile</figcaption></figure>\n<figure>{}",
        svg::histogram(cell)
    );
    html.push_str("<figcaption>Requests by latency</figcaption></figure>\n<table>\n");
    html.push_str("<thead><tr><th>Latency(us)</th><th>Percentile</th><th>Count</th></tr></thead>\n<tbody>\n");
    for point in &cell.latency_us.percentiles {
        let (latency_us, count) = (grouped(point.latency_us), grouped(point.count));
        let _ = writeln!(
            html,
            "<tr><td>{latency_us}</td><td>{}</td><td>{count}</td></tr>",
            point.percentile
        );
    }
    html.push_str("</tbody></table>\n</div>\n");
}

fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

const STYLE: &str = "
:root { color-scheme: light dark; --text: #1c1f24; --soft: #6a7079; --line: #dfe2e6; --ink: #2457c5; --back: #fff; --aside: #f5f1e8 }
@media (prefers-color-scheme: dark) {
  :root { --text: #e4e6ea; --soft: #979da7; --line: #343941; --ink: #7fa6ff; --back: #16181c; --aside: #262319 }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--back); max-width: 1240px; margin: 2em auto; padding: 0 1em }
h1 { font-size: 1.5em } h2 { font-size: 1.1em; margin-top: 2.2em }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13px }
th, td { padding: .25em .7em; border-bottom: 1px solid var(--line); text-align: right; vertical-align: bottom }
th { font-weight: 600 } td:first-child, th:first-child, .facts td { text-align: left }
td.published, th.published { background: var(--aside); font-weight: 400 }
p.published { background: var(--aside); padding: .6em .9em; font-size: 13px }
.wide { overflow-x: auto } .cell { display: flex; flex-wrap: wrap; gap: 1.2em; align-items: flex-start }
figure { margin: 0; flex: 1 1 400px; max-width: 480px } figcaption { color: var(--soft); font-size: 12px; text-align: center }
svg { width: 100%; height: auto } svg text { fill: var(--soft); font-size: 11px }
.grid { stroke: var(--line) } .curve { fill: none; stroke: var(--ink); stroke-width: 2 } circle, .bar { fill: var(--ink) }
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::samples;

    #[test]
    fn a_page_is_self_contained_and_marks_published_figures() {
        let html = page(&samples::results("product", "read"));
        assert_eq!(html.matches("<svg").count(), 2);
        assert_eq!(html.matches("<svg").count(), html.matches("</svg>").count());
        assert!(html.contains("published, with their hardware") && html.contains("AWS m6g.xlarge"));
        assert!(html.contains("864,270; 0.673 / 1.04 / 19.8"));
        assert!(html.contains("A &lt;fast&gt; one") && html.contains("seed 1"));
        assert!(!html.contains("http") && !html.contains("<script"));
    }

    #[test]
    fn a_news_page_shows_the_three_published_systems() {
        let html = page(&samples::results("news", "top ten"));
        assert!(html.contains("<td class=\"published\">DynamoDB</td><td class=\"published\">p99 about 200 ms</td>"));
    }

    #[test]
    fn ycsb_and_calvin_pages_show_what_fauna_published() {
        let mut results = samples::results("ycsb", "B");
        results.cells[0].parallelism = 4_000;
        assert!(page(&results).contains("<td class=\"published\">– / – / 30,830</td>"));
        results.cells[0].parallelism = 7;
        assert!(page(&results).contains("<td class=\"published\">–</td>"));
        assert!(page(&samples::results("calvin", "insert")).contains("3,330 per second"));
    }

    #[test]
    fn a_page_of_vectors_shows_their_recall_and_nothing_published() {
        let mut results = samples::results("vectors", "knn");
        assert!(page(&results).contains("<td>–</td></tr>"));
        results.cells[0].recall = Some(0.5);
        let html = page(&results);
        assert!(html.contains("<th>recall</th>") && html.contains("<td>0.5000</td></tr>"));
        assert!(
            !html.contains("published, with") && !page(&samples::results("search", "tag")).contains("published, with")
        );
    }

    #[test]
    fn thousands_are_grouped() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }
}
