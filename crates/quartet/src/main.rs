//! The `quartet` program.

fn main() -> std::process::ExitCode {
    quartet::main()
}
