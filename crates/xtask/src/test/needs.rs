//! Programs, packages and builds that parts need: installed when they are missing, once for a run.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context, Result, bail};

use super::run::Run;

/// The programs of a run, built together: another choice of packages would compile their
/// dependencies with other features once more.
pub const RELEASE_BUILD: [&str; 9] = [
    "cargo",
    "build",
    "--locked",
    "--release",
    "--package=quartet",
    "--package=quartet-fdb-c",
    "--package=quartet-sim",
    "--package=quartet-next-format",
    "--quiet",
];

pub enum Need {
    /// A program, and the Debian package that has it.
    Program(&'static str, &'static str),
    /// The virtual environment of `tests/requirements.txt`.
    Python,
    /// A folder with `requirements.txt`, and the virtual environment for it below `target`. An
    /// application pins other clients than the tests do.
    Environment(&'static str, &'static str),
    /// The release build and the Python environment that starts it.
    Server,
    /// The packages of a folder with `package-lock.json`.
    Node(&'static str),
    /// The modules of a folder with `go.mod`.
    Go(&'static str),
    /// A file of checksums and paths in Maven's repository, and the folder for them below
    /// `target/test`.
    Jars(&'static str, &'static str),
}

pub struct Installer {
    root: PathBuf,
    /// Held while something is installed: package managers have locks of their own, and fail at
    /// them.
    installing: Mutex<()>,
    is_built: Mutex<bool>,
}

impl Installer {
    pub fn new(root: &Path) -> Installer {
        Installer {
            root: root.to_owned(),
            installing: Mutex::new(()),
            is_built: Mutex::new(false),
        }
    }

    pub fn provide(&self, need: &Need, run: &mut Run) -> Result<()> {
        if let Need::Server = need {
            return self.server(run);
        }
        let _installing = self.installing.lock().expect("no lane panics");
        match need {
            Need::Program(program, package) => install(run, program, package),
            Need::Python => self.environment(run, "tests", "target/test-venv"),
            Need::Environment(folder, environment) => self.environment(run, folder, environment),
            Need::Node(folder) => self.node(run, folder),
            Need::Go(folder) => {
                install(run, "go", "golang")?;
                run.patiently(&["go", "-C", folder, "mod", "download"])
            }
            Need::Jars(lock, folder) => jars(run, &self.root.join(lock), &run.work().join(folder)),
            Need::Server => unreachable!("provided above"),
        }
    }

    fn server(&self, run: &mut Run) -> Result<()> {
        self.provide(&Need::Python, run)?;
        if target() == "redis" {
            return self.provide(&Need::Program("redis-server", "redis-server"), run);
        }
        let mut is_built = self.is_built.lock().expect("no lane panics");
        if !*is_built {
            run.must(run.command(&RELEASE_BUILD))?;
            *is_built = true;
        }
        Ok(())
    }

    fn environment(&self, run: &Run, folder: &str, environment: &str) -> Result<()> {
        let lock = self.root.join(folder).join("requirements.txt");
        let stamp = self.root.join(environment).join("requirements.txt");
        if is_same(&lock, &stamp) {
            return Ok(());
        }
        install(run, "python3", "python3")?;
        let has_modules = run.command(&["python3", "-c", "import ensurepip, venv"]);
        if !run.output(has_modules)?.1 {
            install(run, "ensurepip", "python3-venv")?;
        }
        run.must(run.command(&["python3", "-m", "venv", "--clear", environment]))?;
        let pip = format!("{environment}/bin/pip");
        let requirements = format!("{folder}/requirements.txt");
        let quiet = ["--quiet", "--disable-pip-version-check"];
        run.patiently(&[&pip, "install", quiet[0], quiet[1], "-r", &requirements])?;
        copy(&lock, &stamp)
    }

    fn node(&self, run: &Run, folder: &str) -> Result<()> {
        install(run, "node", "nodejs")?;
        let lock = self.root.join(folder).join("package-lock.json");
        let stamp = self.root.join(folder).join("node_modules/.installed");
        if is_same(&lock, &stamp) {
            return Ok(());
        }
        let options = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
        let words = ["npm", "ci", "--prefix", folder];
        run.patiently(&[&words[..], &options].concat())?;
        copy(&lock, &stamp)
    }
}

/// `QUARTET_TEST_TARGET`, or `quartet`.
pub fn target() -> String {
    std::env::var("QUARTET_TEST_TARGET").unwrap_or_else(|_| "quartet".to_owned())
}

fn is_same(this: &Path, other: &Path) -> bool {
    matches!((std::fs::read(this), std::fs::read(other)), (Ok(this), Ok(other)) if this == other)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::copy(from, to)
        .map(drop)
        .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))
}

/// Installs a Debian package unless the program is on the path. Its services are not started: they
/// would take default ports.
fn install(run: &Run, program: &str, package: &str) -> Result<()> {
    let shell = |script: &str| run.command(&["sh", "-c", script]);
    if run.output(shell(&format!("command -v {program}")))?.1 {
        return Ok(());
    }
    if run.must(run.command(&["id", "-u"]))?.trim() != "0" {
        bail!("{program} is missing; install it (Debian: apt-get install {package}) or run this as root");
    }
    let policy = Path::new("/usr/sbin/policy-rc.d");
    let is_ours = !policy.exists();
    if is_ours {
        run.must(shell(&format!(
            "printf '#!/bin/sh\\nexit 101\\n' > {0} && chmod +x {0}",
            policy.display()
        )))?;
    }
    let options = "-y -qq --no-install-recommends -o DPkg::Lock::Timeout=120";
    let installing = format!("DEBIAN_FRONTEND=noninteractive apt-get install {options} {package}");
    let result = run
        .patiently(&["apt-get", "update", "-qq"])
        .and_then(|()| run.patiently(&["sh", "-c", &installing]));
    if is_ours {
        std::fs::remove_file(policy).with_context(|| format!("cannot remove {}", policy.display()))?;
    }
    result
}

/// Lines `CHECKSUM  PATH` of a lock file: the checksums make a build tool unnecessary.
pub fn jar_paths(lock: &Path) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(lock).with_context(|| format!("cannot read {}", lock.display()))?;
    let paths = text.lines().filter_map(|line| line.split_once("  "));
    Ok(paths.map(|(_, path)| path.to_owned()).collect())
}

fn jars(run: &Run, lock: &Path, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    let check = || {
        let mut command = run.command(&["sha256sum", "--check", "--quiet"]);
        command.arg(lock).current_dir(folder);
        command
    };
    if run.output(check())?.1 {
        return Ok(());
    }
    install(run, "curl", "curl")?;
    let central = std::env::var("MAVEN_CENTRAL").unwrap_or_else(|_| "https://repo.maven.apache.org/maven2".to_owned());
    // A connection that falls silent is abandoned, and opened again.
    let limits = "--connect-timeout 30 --speed-limit 1 --speed-time 60 --retry 5 --retry-all-errors";
    let fetch = format!(
        "cut -c67- {} | xargs -I PATH -P 8 curl --silent --show-error --fail {limits} --create-dirs \
         --output {}/PATH {central}/PATH",
        lock.display(),
        folder.display()
    );
    run.patiently(&["sh", "-c", &fetch])?;
    run.must(check()).map(drop)
}
