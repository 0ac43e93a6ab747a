//! Partitions with homes of their own, as in a cluster's nodes, in one process: each is served by
//! itself, and clients connect at the home of the first.

use std::any::Any;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak, mpsc};
use std::time::Duration;

use quartet_engine::{Durability, PartitionId};
use quartet_layer_redis::Redis;
use quartet_layer_redis::access::acl::password_hash;
use quartet_tenancy::{CatalogueError, DEFAULT_DATABASE, Definition, Secrets};
use tokio::sync::watch;

use super::{Entrances, Foundation, Serving};
use crate::layers::parts::{Calling, Leaving, Nodes, OtherNode, PushError, Whereabouts};
use crate::metrics::{self, Service};
use crate::observability::exposition::Text;
use crate::operations::backups;
use crate::settings::{Credentials, Settings};
use crate::tenants::Tenants;
use crate::{Running, Server};

/// The homes of the partitions other than the first.
struct Homes {
    all: Vec<(Arc<Entrances>, Arc<Tenants>, Arc<Redis>)>,
    calls: AtomicUsize,
}

impl Homes {
    fn new(servings: &[Serving]) -> Homes {
        let all = servings.iter().map(|serving| {
            let redis = serving.redis.clone().unwrap();
            (serving.entrances.clone(), serving.tenants.clone(), redis)
        });
        Homes {
            all: all.collect(),
            calls: AtomicUsize::new(0),
        }
    }

    fn of(&self, partition: PartitionId) -> &(Arc<Entrances>, Arc<Tenants>, Arc<Redis>) {
        &self.all[partition.0 as usize - 1]
    }
}

impl Nodes for Homes {
    fn hears_home(&self) -> bool {
        false
    }

    fn describe(&self) -> serde_json::Value {
        serde_json::Value::Null
    }

    fn home_of(&self, _partition: PartitionId) -> Option<String> {
        None
    }

    fn whereabouts(&self, _partition: PartitionId) -> Whereabouts {
        Whereabouts::Here
    }

    fn carry(self: Arc<Self>, _leaving: Leaving) {
        panic!("no connection leaves this node");
    }

    fn may_carry(&self) -> bool {
        false
    }

    fn call(self: Arc<Self>, partition: PartitionId, listener: &'static str, peer: SocketAddr) -> Calling {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let (entrances, ..) = self.of(partition).clone();
        Box::pin(async move {
            let between = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
            let ours = tokio::net::TcpStream::connect(between.local_addr()?).await?;
            let (theirs, _) = between.accept().await?;
            assert!(
                entrances.admit(listener, theirs, peer).await?,
                "{listener} lets nobody in"
            );
            Ok(Box::new(ours) as Box<dyn crate::connections::stream::Stream>)
        })
    }

    fn push(&self, partition: PartitionId, number: u64, bytes: &[u8]) -> Result<(), PushError> {
        loop {
            match self.of(partition).1.take_push(number, bytes) {
                Ok(()) => return Ok(()),
                Err(CatalogueError::Busy(_)) => std::thread::sleep(Duration::from_millis(1)),
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn gather(&self) {}

    fn hand_over(&self, _name: &str) -> anyhow::Result<()> {
        Ok(())
    }

    fn remove(&self, _name: &str) -> anyhow::Result<()> {
        Ok(())
    }

    fn finish_upgrade(&self) -> anyhow::Result<u32> {
        Ok(1)
    }

    fn outlive_terms(&self, _task: Pin<Box<dyn Future<Output = ()> + Send>>) {}

    fn redis_home(&self) -> watch::Receiver<Option<String>> {
        watch::channel(None).1
    }

    fn own_redis(&self) -> Option<String> {
        None
    }

    fn others(&self) -> Vec<OtherNode> {
        Vec::new()
    }

    fn records(&self) -> u64 {
        0
    }

    fn services(&self) -> Vec<Box<dyn Any + Send + Sync>> {
        let services = (1..).zip(&self.all).map(|(number, (_, tenants, redis))| {
            Box::new(Service {
                partition: PartitionId(number),
                redis: redis.clone(),
                tenants: tenants.clone(),
            }) as Box<dyn Any + Send + Sync>
        });
        services.collect()
    }
}

fn settings() -> Settings {
    let mut settings = Settings::for_test();
    settings.storage.partitions = Some(3);
    settings.connections.authentication_timeout = Duration::from_secs(60);
    settings.connections.output_stall_timeout = Duration::from_secs(60);
    settings.credentials = Credentials::Key {
        sha256: password_hash(b"root"),
    };
    settings.redis.listen = "127.0.0.1:0".parse().unwrap();
    settings.http.listen = "127.0.0.1:0".parse().unwrap();
    settings
}

fn definition(name: &str) -> Definition {
    Definition::new(name, Durability::Always)
}

/// A cluster's partitions, apart.
struct Apart {
    foundation: Arc<Foundation>,
    homes: Arc<Homes>,
    servings: [Serving; 2],
    first: Serving,
}

impl Apart {
    fn begin() -> Apart {
        let server = Server::start(settings()).unwrap();
        let foundation = server.foundation.clone();
        match server.running {
            Running::Alone(together) => together.end(),
            Running::Node(_) => unreachable!("a server alone"),
        }
        let servings = [1, 2].map(|id| Serving::of_partition(&foundation, PartitionId(id)).unwrap());
        let homes = Arc::new(Homes::new(&servings));
        let nodes: Arc<dyn Nodes> = homes.clone();
        let nodes: Weak<dyn Nodes> = Arc::downgrade(&nodes);
        assert!(foundation.nodes.set(nodes).is_ok());
        let catalogue = Serving::prepare_apart(&foundation).unwrap();
        let first = Serving::begin_apart(&foundation, catalogue).unwrap();
        Apart {
            foundation,
            homes,
            servings,
            first,
        }
    }

    /// Creates a database of this name in a partition other than the first.
    fn create(&self, name: &str) -> Secrets {
        let (database, secrets) = self.first.tenants.catalogue.create(definition(name)).unwrap();
        assert!(self.first.tenants.elsewhere(&database).is_some());
        secrets
    }

    fn at(&self, name: &str) -> TcpStream {
        let endpoint = self.first.endpoints.iter().find(|endpoint| endpoint.name == name);
        let socket = TcpStream::connect(endpoint.unwrap().address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        socket
    }

    fn end(self) {
        self.first.end();
        drop(self.homes);
        self.servings.into_iter().for_each(Serving::end);
        // The default database is nowhere else.
        for (_, engine) in self.foundation.partitions.iter().skip(1) {
            assert_eq!(engine.rows_of(DEFAULT_DATABASE).unwrap().iter().sum::<u64>(), 0);
        }
        drop(self.foundation);
    }
}

/// Sends a Redis request as a line, and reads as many bytes as are expected.
fn ask(socket: &mut TcpStream, request: &str, expected: &str) {
    socket.write_all(format!("{request}\r\n").as_bytes()).unwrap();
    let mut reply = vec![0; expected.len()];
    socket.read_exact(&mut reply).unwrap();
    assert_eq!(String::from_utf8_lossy(&reply), expected, "{request}");
}

fn read_until(socket: &mut TcpStream, end: &str) {
    let (mut read, mut byte) = (Vec::new(), [0]);
    while !read.ends_with(end.as_bytes()) {
        socket.read_exact(&mut byte).unwrap();
        read.extend(byte);
    }
}

/// Sends a request of HTTP and reads the whole answer.
fn get(socket: &mut TcpStream, path: &str, token: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn clients_are_led_to_the_home_of_their_database() {
    let apart = Apart::begin();
    let (shop, news) = (apart.create("shop"), apart.create("news"));
    let mut redis = apart.at("redis");
    ask(&mut redis, "AUTH root\r\nSET key default", "+OK\r\n+OK\r\n");
    ask(&mut redis, &format!("AUTH {}", shop.token), "+OK\r\n");
    ask(&mut redis, "SET key shop", "+OK\r\n");
    ask(&mut redis, "GET key", "$4\r\nshop\r\n");
    // The name and the protocol are forwarded, together with the pipelined requests.
    let mut third = apart.at("redis");
    third
        .write_all(b"HELLO 3 AUTH default root SETNAME me\r\nECHO agreed\r\n")
        .unwrap();
    read_until(&mut third, "agreed\r\n");
    let pipeline = format!("AUTH {}\r\nHGETALL nothing\r\nCLIENT GETNAME", news.token);
    ask(&mut third, &pipeline, "+OK\r\n%0\r\n$2\r\nme\r\n");
    ask(&mut third, "GET key", "_\r\n");
    // A client that is refused there stays, and may try others.
    let mut other = apart.at("redis");
    ask(&mut other, "AUTH wrong", "-WRONGPASS");
    read_until(&mut other, "\r\n");
    ask(&mut other, "AUTH shop/nobody wrong\r\nPING", "-WRONGPASS");
    read_until(&mut other, "\r\n");
    ask(&mut other, "", "-NOAUTH");
    read_until(&mut other, "\r\n");
    ask(&mut other, "AUTH root\r\nGET key", "+OK\r\n$7\r\ndefault\r\n");
    let answer = get(&mut apart.at("http"), "/get/key", &shop.token);
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.ends_with("{\"result\":\"shop\"}"),
        "{answer}"
    );
    for (id, _) in apart.foundation.partitions.iter() {
        backups::mark(&apart.first.tenants, id).unwrap();
    }
    // A change holds at once and everywhere.
    let (_, renewed) = apart.first.tenants.catalogue.renew_credentials("shop").unwrap();
    ask(&mut apart.at("redis"), &format!("AUTH {}", shop.token), "-WRONGPASS");
    ask(
        &mut apart.at("redis"),
        &format!("AUTH {}\r\nGET key", renewed.token),
        "+OK\r\n$4\r\nshop\r\n",
    );
    apart.first.tenants.delete("news").unwrap();
    ask(&mut apart.at("redis"), &format!("AUTH {}", news.token), "-WRONGPASS");
    assert!(matches!(third.read(&mut [0]), Ok(0) | Err(_)), "its connections end");
    apart.end();
}

/// Sends a request over a connection that stays, and reads the answer's head and as much of a body
/// as `has_body` says.
fn exchange(socket: &mut TcpStream, method: &str, path: &str, token: &str) -> (usize, String) {
    let request = format!("{method} {path} HTTP/1.1\r\nauthorization: Bearer {token}\r\n\r\n");
    socket.write_all(request.as_bytes()).unwrap();
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        socket.read_exact(&mut byte).unwrap();
        head.extend(byte);
    }
    let head = String::from_utf8(head).unwrap();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .unwrap();
    let length: usize = length.parse().unwrap();
    let mut body = vec![0; if method == "HEAD" { 0 } else { length }];
    socket.read_exact(&mut body).unwrap();
    (length, String::from_utf8(body).unwrap())
}

/// Each request that was passed on opened a connection, and an answer to HEAD had no length.
#[test]
fn requests_of_a_client_share_a_connection_to_a_home() {
    let apart = Apart::begin();
    let (shop, news) = (apart.create("shop"), apart.create("news"));
    let mut client = apart.at("http");
    for token in [&shop.token, &news.token] {
        let before = apart.homes.calls.load(Ordering::SeqCst);
        let (length, body) = exchange(&mut client, "GET", "/set/key/value", token);
        assert_eq!(body, "{\"result\":\"OK\"}");
        for _ in 0..5 {
            assert_eq!(
                exchange(&mut client, "GET", "/get/key", token).1,
                "{\"result\":\"value\"}"
            );
        }
        assert_eq!(
            exchange(&mut client, "HEAD", "/echo/OK", token),
            (length, String::new())
        );
        assert_eq!(
            exchange(&mut client, "GET", "/get/key", token).1,
            "{\"result\":\"value\"}"
        );
        assert_eq!(apart.homes.calls.load(Ordering::SeqCst), before + 1);
    }
    // A token that opens nothing any more is refused on it.
    apart.first.tenants.catalogue.renew_credentials("shop").unwrap();
    let refused = exchange(&mut client, "GET", "/get/key", &shop.token).1;
    assert!(refused.contains("error"), "{refused}");
    apart.end();
}

/// Requests were counted in metrics that no page showed.
#[test]
fn metrics_show_each_service_of_a_node() {
    let apart = Apart::begin();
    let shop = apart.create("shop");
    exchange(&mut apart.at("http"), "GET", "/get/key", &shop.token);
    let lines = |is_for_operators| {
        let mut page = Text::default();
        let redis = apart.first.redis.as_ref().unwrap();
        metrics::write(redis, &apart.first.tenants, is_for_operators, &mut page);
        let mut without_first = Text::default();
        let partitions = &apart.foundation.partitions;
        metrics::write_without_first(
            partitions,
            &metrics::services_of(&*apart.homes),
            is_for_operators,
            &mut without_first,
        );
        [page.text, without_first.text].map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>())
    };
    let number = apart.first.tenants.catalogue.named("shop").unwrap().partition().0;
    let labels = format!("partition=\"{number}\"");
    let operation_series =
        format!("quartet_request_duration_seconds_count{{{labels},layer=\"rest\",operation=\"command\"}} 1");
    let database_series = format!("quartet_database_request_seconds_count{{{labels},database=\"shop\"}} 1");
    for page in lines(true) {
        assert!(
            page.contains(&operation_series) && page.contains(&database_series),
            "{page:#?}"
        );
        // Samples of a metric are adjacent, after one heading.
        let headings: Vec<_> = page.iter().filter(|line| line.starts_with("# TYPE")).collect();
        let mut different = headings.clone();
        different.sort();
        different.dedup();
        assert_eq!(different.len(), headings.len());
    }
    for page in lines(false) {
        assert!(
            page.contains(&operation_series) && !page.iter().any(|line| line.contains("shop")),
            "{page:#?}"
        );
    }
    apart.end();
}

/// It waited without an end for clients that said nothing: no listener of its own woke them.
#[test]
fn a_service_without_sockets_ends_while_its_clients_are_silent() {
    let apart = Apart::begin();
    let shop = apart.create("shop");
    let mut silent = apart.at("redis");
    ask(&mut silent, &format!("AUTH {}", shop.token), "+OK\r\n");
    let Apart {
        foundation,
        homes,
        servings,
        first,
    } = apart;
    drop(homes);
    let (ended, has_ended) = mpsc::channel();
    let ending = std::thread::spawn(move || {
        servings.into_iter().for_each(Serving::end);
        ended.send(()).unwrap();
    });
    assert_eq!(has_ended.recv_timeout(Duration::from_secs(60)), Ok(()));
    ending.join().unwrap();
    assert!(matches!(silent.read(&mut [0]), Ok(0) | Err(_)), "its connection ends");
    first.end();
    drop(foundation);
}
