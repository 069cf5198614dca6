use super::*;

fn client(completed: u64, latencies: &[(u64, u64)]) -> ClientReport {
    let counts = Counts { tickets: completed, completed, ..Counts::default() };
    ClientReport { counts, latencies: latencies.to_vec(), cpu_ns: 250, wall_ns: 1000 }
}

fn phase() -> Phase {
    Phase::new(&[client(3, &[(100, 98)]), client(4, &[(5000, 1), (200, 1)])], 1.5, 2.5).unwrap()
}

#[test]
fn clients_are_merged() {
    let phase = phase();
    assert_eq!((phase.counts.tickets, phase.counts.completed), (7, 7));
    assert_eq!(phase.clients_percent, 50.0);
    assert_eq!((phase.wake_ns.p50, phase.wake_ns.p99), (100, 200));
    assert!((5000..5010).contains(&phase.wake_ns.p999));
}

#[test]
fn a_histogram_survives_the_pipe() {
    let mut seen = latencies().unwrap();
    for value in [1, 17, 17, 30_000, 12_345_678] {
        seen.record(value).unwrap();
    }
    let line = serde_json::to_string(&ClientSays::Done(client(5, &pairs(&seen)))).unwrap();
    let Ok(ClientSays::Done(report)) = serde_json::from_str(&line) else { panic!("{line}") };
    let merged = Phase::new(&[report], 0.0, 0.0).unwrap();
    assert_eq!(merged.wake_ns.p50, 17);
    assert_eq!(merged.wake_ns.p999, seen.value_at_quantile(0.999));
}

#[test]
fn the_record_has_the_keys_that_are_promised_and_no_others() {
    let record = Record::new("io-uring".into(), 2, &phase(), &[("spin", phase())]);
    let value = serde_json::to_value(&record).unwrap();
    let keys = |value: &serde_json::Value| {
        let mut keys: Vec<_> = value.as_object().unwrap().keys().cloned().collect();
        keys.sort();
        keys.join(" ")
    };
    assert_eq!(
        keys(&value),
        "baselines clients completed cpu duplicated early executor lost tickets wake_ns"
    );
    assert_eq!(keys(&value["wake_ns"]), "p50 p99 p999");
    assert_eq!(keys(&value["cpu"]), "clients_percent daemon_percent device_percent");
    assert_eq!(keys(&value["baselines"][0]), "completed cpu_percent name wake_ns");
    assert_eq!(keys(&value["baselines"][0]["wake_ns"]), "p50 p99 p999");
}

#[test]
fn percentages_are_rounded_and_never_divide_by_nothing() {
    assert_eq!(percent(1, 3), 33.33);
    assert_eq!(percent(5, 0), 500.0);
}
