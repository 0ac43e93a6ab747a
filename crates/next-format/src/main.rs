//! The `quartet` program with the next format, for `tests/cluster/python/test_upgrade.py`. It is
//! never released.

fn main() -> std::process::ExitCode {
    quartet_model::format::be_the_next_program();
    quartet::main()
}
