//! STATUS: its JSON text, and who has asked for it.
//!
//! FILL counts for all who ask at once: those that ask while it does wait for the next count. So a
//! count is never older than the request that it answers, and however many ask, and however often,
//! FILL counts once for each time that it has answered.

use serde_json::{Value, json};

use super::Desk;
use super::peer::Phase;
use crate::daemon::command::{Ask, Asked, Command, Counters, NO_SLOT, Seat};
use crate::engine::Stats;
use crate::host::clock;
use crate::proto::limits::MESSAGE_BYTES_MAX;
use crate::proto::message::{self, Opcode, REPLY, StatusText};

/// Sessions that are listed one by one.
const SESSIONS_LISTED: usize = 32;

/// What one of them takes of the text, at most.
const SESSION_BYTES: usize = 256;

const _: () = assert!(SESSIONS_LISTED * SESSION_BYTES < MESSAGE_BYTES_MAX / 2);

/// Who has asked for STATUS: serial numbers and cookies.
#[derive(Default)]
pub struct Askers {
    /// FILL counts for these.
    counted: Vec<(u32, u64)>,
    /// It counts for these next.
    next: Vec<(u32, u64)>,
}

impl Desk {
    /// Notes that a peer asks, and has FILL count unless it does.
    pub(super) fn ask_status(&mut self, serial: u32, cookie: u64) {
        let Some(peer) = self.peers.get_mut(&serial) else { return };
        peer.asked += 1;
        self.askers.next.push((serial, cookie));
        if self.askers.counted.is_empty() {
            self.count();
        }
    }

    fn count(&mut self) {
        self.askers.counted = std::mem::take(&mut self.askers.next);
        let nobody = Seat { slot: NO_SLOT, serial: 0 };
        let asked = Asked { opcode: Opcode::Status, cookie: 0, again: false };
        self.command(Command::Request(nobody, asked, Ask::Counters));
    }

    /// FILL has counted.
    pub(super) fn answer_status(&mut self, counters: &Counters) {
        let text = self.status_text(counters);
        let body = StatusText { bytes: text.len() as u32, reserved: 0 };
        for (serial, cookie) in std::mem::take(&mut self.askers.counted) {
            let Some(peer) = self.peers.get_mut(&serial) else { continue };
            peer.asked = peer.asked.saturating_sub(1);
            let opcode = Opcode::Status as u16 | REPLY;
            self.send(serial, message::encode(opcode, cookie, &body, text.as_bytes()), Vec::new());
        }
        if !self.askers.next.is_empty() {
            self.count();
        }
    }

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
