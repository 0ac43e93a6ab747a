//! The correction of this node's times by the other nodes' clocks.

use std::time::Instant;

use tokio::task::JoinSet;

use super::Shared;
use crate::cluster::clocks::{self, Clocks};
use crate::cluster::members::now_us;

impl Shared {
    /// Reads the other nodes' clocks until the node ends, and corrects this node's times.
    pub(super) async fn follow_clocks(&self) {
        let (mut clocks, mut last) = (Clocks::default(), None::<Instant>);
        let mut logged = 0;
        loop {
            let is_set = clocks.look(now_us(), Instant::now());
            if is_set || last.is_none_or(|last| last.elapsed() >= clocks::ASK_EVERY) {
                // A clock that was set is corrected by what is known already.
                self.correct_clock(&mut clocks, &mut logged);
                last = Some(Instant::now());
                let mut reading = JoinSet::new();
                for (id, member) in self.home.members.view().members {
                    let home = self.home.clone();
                    if id != self.settings.node().0 {
                        reading.spawn(async move { (id, clocks::ask(&home.link, &member.address).await) });
                    }
                }
                while let Some(answer) = reading.join_next().await {
                    if let Ok((id, Ok(ahead))) = answer {
                        clocks.note(id, ahead, Instant::now());
                    }
                }
                self.home.members.note_clocks(clocks.known(Instant::now()));
                self.correct_clock(&mut clocks, &mut logged);
            }
            tokio::time::sleep(clocks::LOOK_EVERY).await;
        }
    }

    /// Corrects the engines' times. `logged`: the correction in the newest message of the log.
    fn correct_clock(&self, clocks: &mut Clocks, logged: &mut i64) {
        let Some(ahead) = clocks.compare(Instant::now()) else {
            return;
        };
        let correction = clocks::correction(ahead);
        self.engines()
            .for_each(|engine| engine.correct_clock(ahead, correction));
        if (correction - *logged).abs() > clocks::BOUND_MICROS {
            *logged = correction;
            match correction {
                0 => tracing::info!("this machine's clock is right again"),
                _ => tracing::warn!(
                    ahead_milliseconds = correction / 1000,
                    "this machine's clock differs from those of most nodes: times that clients see follow theirs; \
                     correct it"
                ),
            }
        }
    }
}
