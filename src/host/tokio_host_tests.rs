use super::*;
use crate::core::time::DurNs;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn sleeps_are_never_early_and_end_in_order() {
    runtime().block_on(async {
        let start = clock::now();
        let sleeps = [3000, 300, 1000].map(|us| start + DurNs::from_us(us));
        let ended = std::cell::RefCell::new(Vec::new());
        let sleep = |at: MonoNs| {
            let ended = &ended;
            async move {
                TokioTimer.sleep_until(at).await;
                assert!(clock::now() >= at);
                ended.borrow_mut().push(at);
            }
        };
        tokio::join!(sleep(sleeps[0]), sleep(sleeps[1]), sleep(sleeps[2]));
        let ended = ended.into_inner();
        assert_eq!(ended.len(), 3);
        // The longest is 2 ms behind the others: those may come in one turn of the runtime.
        assert_eq!(ended[2], sleeps[0]);
    });
}

/// The shortest of many shows the timer's unit: tokio's own would be a millisecond.
#[test]
fn sleeps_are_finer_than_milliseconds() {
    runtime().block_on(async {
        let mut shortest = DurNs::MAX;
        for _ in 0..200 {
            let start = clock::now();
            TokioTimer.sleep_until(start + DurNs::from_us(50)).await;
            shortest = shortest.min(clock::now().since(start));
        }
        assert!(shortest >= DurNs::from_us(50) && shortest < DurNs::from_us(1000), "{shortest}");
    });
}

#[test]
fn what_is_past_does_not_wait_and_never_does_not_come() {
    runtime().block_on(async {
        TokioTimer.sleep_until(MonoNs(0)).await;
        TokioTimer.sleep_until(clock::now()).await;
        tokio::select! {
            () = TokioTimer.sleep_until(MonoNs::MAX) => panic!("it came"),
            () = TokioTimer.sleep_until(clock::now() + DurNs::from_us(500)) => {}
        }
    });
}

#[test]
fn without_timerfds_it_is_coarse_but_not_early() {
    runtime().block_on(async {
        let at = clock::now() + DurNs::from_us(300);
        coarse(at).await;
        assert!(clock::now() >= at);
    });
}
