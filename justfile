# A menu; `just` lists it. Anything longer than a line is in `./test` or an xtask.

_default:
    @just --list

# Everything that must hold, as the forge runs it
check:
    ./test

# One crate, before a commit: `just quick engine` checks its format, the map, its lints and its tests
quick crate:
    cargo fmt --all --check && cargo xtask tidy && cargo clippy -p quartet-{{crate}} --all-targets -- -D warnings && cargo test -p quartet-{{crate}}

# The parts of `./test` that a change touches: `just since main`
since reference="HEAD":
    ./test --since {{reference}}

# The map, circles of imports, links
tidy:
    cargo xtask tidy

# The Rust tests of one crate: `just unit engine`
unit crate:
    cargo test -p quartet-{{crate}}

# A server for development, data in ./data
serve:
    cargo run --bin quartet -- serve --data data --dev

# Seeded worlds: `just simulate 1000`
simulate seeds="1000":
    cargo run --release -p quartet-sim -- --seeds {{seeds}}

# One seed again
seed number:
    cargo run --release -p quartet-sim -- --seed {{number}}

# The published benchmark against a running server: `just bench redis://127.0.0.1:6379`
bench target:
    cargo run --release --bin quartet -- bench product --target {{target}}

# Licences, sources and advisories of what is used: `./test tidy` checks all but the advisories
deny:
    cargo deny check

# The formats of all Rust code
format:
    cargo fmt --all
