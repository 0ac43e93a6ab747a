//! The kinds of suites: `cargo test`, pytest, and the clients' tests in Node, Go and Java.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::needs::jar_paths;
use super::run::Run;
use super::tally::Tally;

/// Makes clippy the compiler of the workspace: one compilation reports its lints and makes the test
/// programs. `cargo clippy` would check all packages once more.
pub fn lint_while_compiling(run: &mut Run) {
    run.set("RUSTC_WORKSPACE_WRAPPER", "clippy-driver");
    // `-D warnings`, as `cargo clippy` passes it on to the driver.
    let end = "__CLIPPY_HACKERY__";
    run.set("CLIPPY_ARGS", format!("-D{end}warnings{end}"));
    // A fresh clone has no use for what a next build or a debugger could read.
    run.set("CARGO_INCREMENTAL", 0);
    run.set("CARGO_PROFILE_DEV_DEBUG", 0);
}

/// `cargo test` with these arguments. The limit, in seconds, starts after all programs are
/// compiled.
pub fn cargo_test(run: &mut Run, arguments: &[&str], limit_seconds: u64) -> Result<()> {
    lint_while_compiling(run);
    let before_dashes: Vec<&str> = arguments.iter().copied().take_while(|word| *word != "--").collect();
    let compile = ["cargo", "test", "--locked", "--quiet", "--no-run"];
    run.must(run.command(&[&compile[..], &before_dashes].concat()))?;
    let limit = limit_seconds.to_string();
    let test = ["timeout", &limit, "cargo", "test", "--locked"];
    run.counted(run.command(&[&test[..], arguments].concat()), |output, _| {
        Tally::of_cargo(output)
    })
}

/// pytest over files and folders; `report` names its report below `target/test`.
pub fn pytest(run: &mut Run, report: &str, arguments: &[&str]) -> Result<()> {
    let file = run.work().join(format!("{report}.xml"));
    let _ = std::fs::remove_file(&file);
    let mut command = Command::new(run.python());
    command.current_dir(&run.root);
    command.args([
        "-m",
        "pytest",
        "-c",
        "tests/pytest.ini",
        "--rootdir",
        "tests",
        "--tb=short",
    ]);
    command.arg("--junitxml").arg(&file).args(arguments);
    let (_, succeeded) = run.output(command)?;
    let tally = Tally::of_junit(&std::fs::read_to_string(&file).unwrap_or_default());
    run.tally.add(tally);
    if !succeeded {
        bail!("failed: pytest {}", arguments.join(" "));
    }
    if tally.passed == 0 {
        bail!("pytest {} ran no test", arguments.join(" "));
    }
    Ok(())
}

/// A program of the harness, as one test.
pub fn python(run: &mut Run, module: &str, arguments: &[&str]) -> Result<()> {
    let python = run.python().display().to_string();
    run.one(&[&[python.as_str(), "-m", module], arguments].concat())
}

/// The words of a command that finds a fresh server's addresses in its environment.
pub fn with_server(run: &Run, words: &[&str]) -> Command {
    let mut command = Command::new(run.python());
    command.current_dir(&run.root).args(["-m", "harness", "--"]).args(words);
    command
}

/// `npm test` of a folder, with a server.
pub fn node(run: &mut Run, folder: &str) -> Result<()> {
    let command = with_server(run, &["npm", "--prefix", folder, "test", "--silent"]);
    run.counted(command, |output, _| Tally::of_node(output))
}

/// `go test -json` of a folder, with a server.
pub fn go(run: &mut Run, folder: &str) -> Result<()> {
    let command = with_server(run, &["go", "test", "-C", folder, "-count=1", "-json", "."]);
    run.counted(command, |output, _| Tally::of_go(output))
}

/// The JUnit tests of a folder, with a server.
pub fn java(run: &mut Run, folder: &str) -> Result<()> {
    let jars = run.work().join("jars");
    let classes = run.work().join(format!("classes/{folder}"));
    let _ = std::fs::remove_dir_all(&classes);
    let paths = jar_paths(&run.root.join(folder).join("jars.sha256"))?;
    let paths: Vec<String> = paths.iter().map(|path| jars.join(path).display().to_string()).collect();
    let (path, classes) = (paths.join(":"), classes.display().to_string());
    let mut javac = run.command(&[
        "javac",
        "--release",
        "17",
        "-Xlint:all,-processing,-classfile,-path",
        "-Werror",
    ]);
    javac
        .args(["-d", &classes, "-cp", &path])
        .args(sources(&run.root.join(folder).join("quartet"))?);
    run.must(javac)?;
    let path = format!("{classes}:{path}");
    let console = "org.junit.platform.console.ConsoleLauncher";
    let options = ["--disable-banner", "--disable-ansi-colors", "--details", "tree"];
    let words = ["java", "-cp", &path, console, "execute", "--scan-class-path", &classes];
    let command = with_server(run, &[&words[..], &options].concat());
    run.counted(command, |output, _| Tally::of_java(output))
}

fn sources(folder: &Path) -> Result<Vec<std::path::PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let paths = entries.flatten().map(|entry| entry.path());
    Ok(paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "java"))
        .collect())
}
