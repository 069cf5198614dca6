use super::*;

fn lengths(client: u32, clients: u32) -> Vec<u64> {
    streams(Workload::Mixed, client, clients).iter().map(|work| work.work_ns).collect()
}

#[test]
fn one_short_and_one_long_stream_among_all() {
    assert_eq!(lengths(0, 4), [1_000_000, 50_000]);
    assert_eq!(lengths(1, 4), [1_000_000]);
    assert_eq!(lengths(3, 4), [1_000_000, 10_000_000]);
    assert_eq!(streams(Workload::Steady, 0, 1).len(), 1);
    assert_eq!(lengths(0, 1), [1_000_000, 50_000, 10_000_000]);
}

#[test]
fn no_two_streams_share_a_seed() {
    let mut seeds: Vec<u64> = (0..CLIENTS_MAX)
        .flat_map(|client| streams(Workload::Mixed, client, CLIENTS_MAX))
        .map(|w| w.seed)
        .collect();
    let all = seeds.len();
    seeds.sort_unstable();
    seeds.dedup();
    assert_eq!(seeds.len(), all);
    assert_eq!(streams(Workload::Steady, 2, 4), streams(Workload::Mixed, 2, 4));
}
