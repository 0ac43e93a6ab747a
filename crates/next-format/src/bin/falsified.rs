//! The `quartet` program as on a machine with damaged memory: a row of each node's state is changed
//! where it opens, without the log. For `tests/cluster/python/test_vote.py`; it is never released.

use quartet_engine::Engine;
use quartet_model::LayerId;

/// The number of the default database.
const DEFAULT_DATABASE: [u8; 2] = [0, 1];

fn main() -> std::process::ExitCode {
    let key = [&DEFAULT_DATABASE[..], &[LayerId::KeyValue as u8], b"falsified"].concat();
    Engine::falsify_when_opened(&key, b"another state");
    quartet::main()
}
