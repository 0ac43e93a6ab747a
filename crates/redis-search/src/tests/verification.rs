//! Disagreements between the rows of a vector set are planted, found and repaired.

use quartet_layer_redis::module_api::key_row;

use crate::testing::{Connection, Fixture, first, found, plant, search_fixture};

/// Adds elements that are all in the graph or, once there are many, wait for it.
fn add(connection: &mut Connection, count: usize) {
    for number in 0..count {
        let number = number.to_string();
        connection.run(&["VADD", "vectors", "VALUES", "2", "1", &number, &number]);
    }
}

/// The prefix of the rows of the elements.
fn elements(fixture: &Fixture) -> Vec<u8> {
    let reader = fixture.layer.engine.reader(fixture.layer.space).unwrap();
    let value = reader.get(&key_row(0, b"vectors")).unwrap();
    [b"E", &value[1..11]].concat()
}

/// Elements that wait, of which nothing says so: they would never be linked.
#[test]
fn elements_that_wait() {
    let fixture = search_fixture();
    add(&mut fixture.connect(), 300);
    assert_eq!(found(&fixture), Vec::<String>::new());
    plant(&fixture, |tx| _ = tx.clear_range(b"V", b"W"));
    let repairable = fixture.findings().kept;
    let found_now: Vec<&str> = repairable.iter().map(|finding| finding.what.as_str()).collect();
    assert_eq!(
        found_now,
        ["elements of key \"vectors\" of database 0 wait, and nothing says so"]
    );
    fixture.layer.engine.repair(&repairable).unwrap();
    assert_eq!(found(&fixture), Vec::<String>::new());
}

/// A link that leads only one way, and an element without its name.
#[test]
fn vector_sets() {
    for (tag, expected) in [
        (b'l', "has a graph that is none"),
        (b'm', "has elements without a name"),
    ] {
        let fixture = search_fixture();
        add(&mut fixture.connect(), 30);
        let row = first(&fixture, &[elements(&fixture).as_slice(), &[tag]].concat());
        plant(&fixture, |tx| drop(tx.clear(&row)));
        assert_eq!(found(&fixture), [format!("key \"vectors\" of database 0 {expected}")]);
    }
}
