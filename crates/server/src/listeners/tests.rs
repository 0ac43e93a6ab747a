//! A new layer, added as in `docs/contributing/layer.md`: the toy's row and its struct of settings,
//! and no other code that knows it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::time::Duration;

use quartet_engine::Durability;
use quartet_tenancy::Definition;

use super::{ServedLayer, echo, redis};
use crate::observability::exposition::Text;
use crate::settings::{EchoSettings, Settings};
use crate::{Server, metrics};

static LAYERS: [ServedLayer; 2] = [redis::LAYER, echo::LAYER];

fn create(server: &Server, name: &str) {
    let definition = Definition::new(name, Durability::Always);
    server.serving().tenants.catalogue.create(definition).unwrap();
}

/// The lines of `/metrics` with this prefix.
fn metrics_of(server: &Server, start: &str) -> Vec<String> {
    let mut out = Text::default();
    let serving = server.serving();
    metrics::write(serving.redis.as_ref().unwrap(), &serving.tenants, true, &mut out);
    let lines = out.text.lines().filter(|line| line.starts_with(start));
    lines.map(str::to_owned).collect()
}

/// Uses two databases over connections that remain open.
fn ask_both(address: &str) -> Vec<BufReader<std::net::TcpStream>> {
    let ask = |name: &&str| {
        let mut socket = BufReader::new(std::net::TcpStream::connect(address).unwrap());
        socket
            .get_mut()
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        socket
            .get_mut()
            .write_all(format!("{name}\nhello\n").as_bytes())
            .unwrap();
        let mut reply = String::new();
        socket.read_line(&mut reply).unwrap();
        assert_eq!(reply, "hello, world: hello\n");
        socket
    };
    ["first", "second"].iter().map(ask).collect()
}

fn settings() -> Settings {
    Settings {
        echo: EchoSettings {
            listen: "127.0.0.1:0".parse().unwrap(),
            greeting: "hello, world".into(),
        },
        ..Settings::for_test()
    }
}

#[test]
fn a_layer_more_is_a_row_and_a_struct() {
    let server = Server::start_with(settings(), &LAYERS).unwrap();
    create(&server, "first");
    create(&server, "second");
    let endpoints = server.endpoints();
    let [endpoint] = &endpoints[..] else {
        panic!("{endpoints:?}");
    };
    let (name, address) = (endpoint.name, endpoint.address.to_string());
    assert_eq!(name, "echo");
    let layers_open = || metrics_of(&server, "quartet_layers_open{");
    let open = |databases| {
        let row = |(layer, databases)| format!("quartet_layers_open{{layer=\"{layer}\"}} {databases}");
        [("redis", 0), ("echo", databases)].map(row)
    };
    assert_eq!(layers_open(), open(0));
    let connections = ask_both(&address);
    assert_eq!(layers_open(), open(2));
    // A layer in use is not built again.
    drop((ask_both(&address), connections));
    assert_eq!(layers_open(), open(2));
    let connections = ask_both(&address);
    let durations = metrics_of(&server, "quartet_request_duration_seconds_count");
    assert_eq!(
        durations,
        ["quartet_request_duration_seconds_count{layer=\"echo\",operation=\"line\"} 6"]
    );
    // It answers an error if anything still holds the engine.
    server.shutdown(Duration::from_secs(600)).unwrap();
    drop(connections);
}

/// Each time the same sockets, and databases as they were left.
#[test]
fn layers_are_dropped_and_made_again_over_one_engine() {
    let mut server = Server::start_with(settings(), &LAYERS).unwrap();
    create(&server, "first");
    create(&server, "second");
    let address = server.endpoints()[0].address;
    for _ in 0..3 {
        let mut connections = ask_both(&address.to_string());
        server = server.serve_anew().unwrap();
        let mut databases = Vec::new();
        connections.iter_mut().for_each(|socket| {
            let _ = std::io::Read::read_to_end(socket, &mut databases);
        });
        assert!(databases.is_empty(), "connections end with their layers");
        assert_eq!(server.endpoints()[0].address, address);
    }
    drop(ask_both(&address.to_string()));
    server.shutdown(Duration::from_secs(600)).unwrap();
}

#[test]
fn a_layer_more_is_refused_beyond_loopback_without_credentials() {
    let mut settings = settings();
    settings.echo.listen = "0.0.0.0:0".parse().unwrap();
    let refused = Server::start_with(settings, &LAYERS).err().unwrap();
    assert!(refused.to_string().contains("refusing to listen for echo"), "{refused}");
}

/// `docs/contributing/layer.md` shows the toy: each block of code that names a file is in it, word
/// for word, and together they are the whole of the toy's files.
#[test]
fn the_page_about_layers_shows_the_toy() {
    const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let page = std::fs::read_to_string(format!("{ROOT}/docs/contributing/layer.md")).unwrap();
    let mut columns: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for block in page.split("```rust,file=").skip(1) {
        let (file, code) = block.split_once('\n').unwrap();
        let (code, _) = code.split_once("```").unwrap();
        let text = std::fs::read_to_string(format!("{ROOT}/{file}")).unwrap();
        assert!(text.contains(code), "{file} has no such lines:\n{code}");
        columns.entry(file).or_default().push(code);
    }
    for file in [
        "crates/server/src/settings/echo.rs",
        "crates/server/src/listeners/echo.rs",
    ] {
        let text = std::fs::read_to_string(format!("{ROOT}/{file}")).unwrap();
        assert_eq!(columns[file].join("\n"), text, "{file}");
    }
    assert!(columns.len() > 4, "the steps outside the toy are shown as well");
}
