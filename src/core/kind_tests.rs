use alloc::vec;

use super::*;

fn works() -> Probed {
    Ok(())
}

fn forbidden() -> Probed {
    Err("the sysctl forbids it".into())
}

fn absent() -> Probed {
    Err("no such call".into())
}

type Chain = [(&'static str, fn() -> Probed); 3];

fn chain(probes: [fn() -> Probed; 3]) -> Chain {
    let [first, second, third] = probes;
    [("ring", first), ("poll", second), ("naive", third)]
}

#[test]
fn the_kind_that_was_asked_for_runs_without_a_word() {
    for requested in ["ring", "poll", "naive"] {
        for strict in [false, true] {
            let resolved = resolve(requested, &chain([works; 3]), strict).unwrap();
            assert_eq!((resolved.running, resolved.label().as_str()), (requested, requested));
            assert_eq!(resolved.warning(), None);
        }
    }
}

#[test]
fn a_fallback_warns_and_shows_in_the_label() {
    let resolved = resolve("ring", &chain([forbidden, absent, works]), false).unwrap();
    assert_eq!(resolved.running, "naive");
    assert_eq!(resolved.label(), "naive (fallback from ring)");
    let warning = resolved.warning().unwrap();
    assert_eq!(warning.code, ErrorCode::ExecutorFallback);
    assert_eq!(
        warning.detail,
        "executor: ring is not available (the sysctl forbids it; poll: no such call), naive is used"
    );
}

#[test]
fn a_fallback_never_goes_up_the_chain() {
    let error = resolve("poll", &chain([works, forbidden, absent]), false).unwrap_err();
    assert_eq!(error.code, ErrorCode::ExecutorRefused);
    assert!(error.detail.contains("the sysctl forbids it; naive: no such call"), "{error}");
}

#[test]
fn strict_refuses_and_probes_nothing_else() {
    let probed = core::cell::RefCell::new(vec![]);
    let probe = |label: &'static str| {
        let probed = &probed;
        (label, move || {
            probed.borrow_mut().push(label);
            if label == "ring" { forbidden() } else { works() }
        })
    };
    let error = resolve("ring", &["ring", "poll"].map(probe), true).unwrap_err();
    assert_eq!(error.code, ErrorCode::ExecutorRefused);
    assert_eq!(
        error.detail,
        "executor: ring is not available (the sysctl forbids it) and strict is set"
    );
    assert_eq!(*probed.borrow(), ["ring"]);
}

#[test]
fn a_label_outside_the_chain_is_invalid() {
    for requested in ["", "Ring", "ring "] {
        let error = resolve(requested, &chain([works; 3]), false).unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidExecutor);
        let said = format!("executor: {requested} is none of ring, poll, naive");
        assert_eq!(error.detail, said);
    }
}
