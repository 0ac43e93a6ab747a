//! Partitions that have homes of their own, as a cluster's nodes make them, in one process: each is
//! served by itself, and clients come in at the home of the first.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Weak};
use std::time::Duration;

use quartet_engine::{Durability, PartitionId};
use quartet_layer_redis::access::acl::password_hash;
use quartet_tenancy::{CatalogueError, DEFAULT_DATABASE, Definition, Secrets};
use tokio::sync::watch;

use super::{Entrances, Foundation, Serving};
use crate::layers::parts::{Calling, Nodes, OtherNode, PushError, Whereabouts};
use crate::operations::backups;
use crate::settings::{Credentials, Settings};
use crate::tenants::Tenants;
use crate::{Running, Server};

/// The homes of the partitions behind the first.
struct Homes(Vec<(Arc<Entrances>, Arc<Tenants>)>);

impl Homes {
    fn of(&self, partition: PartitionId) -> &(Arc<Entrances>, Arc<Tenants>) {
        &self.0[partition.0 as usize - 1]
    }
}

impl Nodes for Homes {
    fn describe(&self) -> serde_json::Value {
        serde_json::Value::Null
    }

    fn home_of(&self, _partition: PartitionId) -> Option<String> {
        None
    }

    fn whereabouts(&self, _partition: PartitionId) -> Whereabouts {
        Whereabouts::Here
    }

    fn call(self: Arc<Self>, partition: PartitionId, listener: &'static str, peer: SocketAddr) -> Calling {
        let (entrances, _) = self.of(partition).clone();
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
        let homes = servings.iter();
        let homes = homes.map(|serving| (serving.entrances.clone(), serving.tenants.clone()));
        let homes = Arc::new(Homes(homes.collect()));
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

    /// A database of this name behind the first partition.
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

/// Sends a request of Redis' protocol, as a line, and reads as much as is expected.
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
    // The name and the protocol go along, and requests that were sent behind.
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
