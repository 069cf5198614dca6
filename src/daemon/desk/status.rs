//! The JSON text of STATUS.

use serde_json::{Value, json};

use super::Desk;
use super::peer::Phase;
use crate::daemon::command::Counters;
use crate::engine::Stats;
use crate::host::clock;
use crate::proto::limits::MESSAGE_BYTES_MAX;

/// Sessions that are listed one by one.
const SESSIONS_LISTED: usize = 32;

/// What one of them takes of the text, at most.
const SESSION_BYTES: usize = 256;

const _: () = assert!(SESSIONS_LISTED * SESSION_BYTES < MESSAGE_BYTES_MAX / 2);

impl Desk {
    pub(super) fn status_text(&self, counters: &Counters) -> String {
        let warnings: Vec<Value> = self
            .setup
            .warnings
            .iter()
            .map(|w| json!({"code": w.code.number(), "name": w.code.name(), "detail": w.detail}))
            .collect();
        json!({
            "executor": self.setup.executor,
            "bell": match self.setup.bell {
                crate::proto::layout::BellKind::Futex => "futex",
                crate::proto::layout::BellKind::Eventfd => "eventfd",
            },
            "cpu": self.setup.cpu,
            "generation": self.setup.generation,
            "pid": std::process::id(),
            "uptime_ms": clock::now().since(self.started).as_us() / 1000,
            "draining": self.draining,
            "sessions": self.session_count(),
            "tickets": counters.outstanding,
            "devices": self.setup.config.devices.iter().map(|d| json!({
                "name": d.name, "kind": d.kind.name(),
            })).collect::<Vec<_>>(),
            "counters": stats(&counters.stats),
            "fill": {
                "turns": counters.turns,
                "syscalls": counters.syscalls,
                "cpu_ns": counters.cpu_ns,
                "awake_ns": counters.awake_ns,
                "awake_writes": counters.awake_writes,
            },
            "session_list": self.session_list(counters),
            "warnings": warnings,
        })
        .to_string()
    }

    fn session_list(&self, counters: &Counters) -> Vec<Value> {
        let sessions = self.peers.values().filter_map(|peer| match &peer.phase {
            Phase::Session(session) => Some((peer, session)),
            _ => None,
        });
        let outstanding = |slot| {
            counters.by_slot.iter().find(|(of, _)| *of == slot).map_or(0, |(_, tickets)| *tickets)
        };
        sessions
            .take(SESSIONS_LISTED)
            .map(|(peer, session)| {
                json!({
                    "session": peer.serial,
                    "pid": peer.who.pid,
                    "uid": peer.who.uid,
                    "tickets": outstanding(session.seat.slot),
                    "result_entries": session.params.result_entries,
                    "lanes": session.params.lanes,
                    "fds": session.fds,
                })
            })
            .collect()
    }
}

fn stats(stats: &Stats) -> Value {
    json!({
        "tickets": stats.tickets,
        "recovered": stats.recovered,
        "results": {
            "done": stats.results[1],
            "deadline_expired": stats.results[2],
            "cancelled": stats.results[3],
            "producer_died": stats.results[4],
            "device_failed": stats.results[5],
            "refused": stats.results[6],
            "shutting_down": stats.results[7],
        },
        "waited": {
            "immediate": stats.waited[1],
            "late": stats.waited[2],
            "parked": stats.waited[3],
            "blocked": stats.waited[4],
        },
        "hot_looks": stats.hot_looks,
        "due_looks": stats.due_looks,
        "hot_ns": stats.hot_ns,
        "hot_refused": stats.hot_refused,
        "futex_wakes": stats.tail_wakes,
        "early_wakes": stats.early_wakes,
        "eventfd_wakes": stats.notifies,
        "closes": stats.closes,
    })
}
