use serde_json::json;

use super::*;

#[test]
fn the_table_is_aligned_and_shows_every_counter() {
    let status = json!({
        "executor": "io-uring", "generation": 3, "pid": 77, "uptime_ms": 1500, "cpu": null,
        "bell": "futex", "sessions": 2, "tickets": 5,
        "counters": {"tickets": 9, "results": {"done": 4}},
        "fill": {"turns": 12},
        "devices": [{"name": "default", "kind": "other"}],
        "session_list": [
            {"pid": 5, "tickets": 100, "uid": 1000},
            {"pid": 12345, "tickets": 2, "uid": 0},
        ],
        "warnings": [{"code": 55, "name": "GroupMissing", "detail": "group parkd"}],
    });
    let text = table(&status);
    let lines: Vec<&str> = text.lines().collect();
    let expected = [
        "executor               io-uring",
        "generation             3",
        "pid                    77",
        "uptime                 1500 ms",
        "cpu                    -",
        "bell                   futex",
        "sessions               2",
        "tickets                5",
        "counters.results.done  4",
        "counters.tickets       9",
        "fill.turns             12",
        "device default         other",
        "",
        "  pid  tickets   uid",
        "    5      100  1000",
        "12345        2     0",
        "warning GroupMissing (55): group parkd",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn a_daemon_that_says_little_is_shown_all_the_same() {
    let text = table(&json!({"executor": "naive", "session_list": []}));
    assert!(text.starts_with("executor    naive\ngeneration  -\n"), "{text}");
    assert_eq!(table(&json!(7)).lines().count(), ROWS.len());
}

#[test]
fn no_daemon_is_one_coded_error() {
    let error = status(Path::new("/nonexistent/parkd.sock"), true).unwrap_err();
    assert_eq!(error.code, ErrorCode::SocketUnavailable);
    assert!(error.detail.contains("/nonexistent/parkd.sock"));
}
