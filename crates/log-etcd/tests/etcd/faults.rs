//! Faults of members.

use std::process::Command;

use crate::members::Members;

impl Members {
    /// Kills the leader, and returns which it was.
    pub fn kill_leader(&mut self) -> usize {
        let leader = self.leader();
        self.kill(leader);
        leader
    }

    /// Suspends a member that does not lead, without ending it, and returns its index.
    pub fn stop_a_follower(&self) -> usize {
        let leader = self.leader();
        let still = (leader + 1) % self.programs.len();
        let id = self.programs[still].as_ref().expect("the member runs").id();
        let stopped = Command::new("kill").args(["-STOP", &id.to_string()]).status();
        assert!(stopped.is_ok_and(|status| status.success()));
        still
    }
}
