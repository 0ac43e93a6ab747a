//! SIGHUP: the certificate and the configuration file are read again.
//!
//! Settings that can change while the server runs do; the others are logged as waiting for a
//! restart. A file that cannot be used changes nothing. Values are not shown, since some are
//! secrets.

use quartet_server::Server;

use crate::settings::ServeArguments;

/// The settings that the server runs with.
pub struct Reload {
    /// As they were given, without the file.
    given: ServeArguments,
    current: ServeArguments,
}

impl Reload {
    pub fn new(given: ServeArguments, current: ServeArguments) -> Reload {
        Reload { given, current }
    }

    pub fn run(&mut self, server: &Server) {
        match self.given.clone().with_file() {
            Ok(read) => self.follow(server, read),
            Err(error) => tracing::error!("the settings stay as they were: {error:#}"),
        }
        server.reload_certificate();
    }

    fn follow(&mut self, server: &Server, read: ServeArguments) {
        let names = self.current.differences(&read);
        if names.is_empty() {
            return tracing::info!("the settings were read again: nothing has changed");
        }
        let (certificate, other_names): (Vec<_>, Vec<_>) =
            names.into_iter().partition(|name| is_about_certificate(name));
        if !certificate.is_empty() {
            let changed = read.tls_files().and_then(|files| server.change_certificate(files));
            told(&certificate.join(", "), changed.map_err(|error| format!("{error:#}")));
        }
        for name in other_names {
            match name.strip_prefix("redis.") {
                None => tracing::warn!("{name} has changed, which needs a restart"),
                Some(parameter) => match read.redis.parameter(parameter) {
                    Some(value) => told(&name, server.set_parameter(parameter, &value)),
                    None => tracing::warn!("{name} is no longer in the file, which needs a restart"),
                },
            }
        }
        self.current = read;
    }
}

fn is_about_certificate(name: &str) -> bool {
    matches!(name, "tls-certificate" | "tls-key" | "tls-client-roots" | "tls-clients")
}

fn told(name: &str, changed: Result<(), String>) {
    match changed {
        Ok(()) => tracing::info!("{name} has changed, and is in force"),
        Err(reason) => tracing::error!("{name} is unchanged: {reason}"),
    }
}
