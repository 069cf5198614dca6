use alloc::string::ToString;

use super::*;

#[test]
fn codes_rise_and_are_found_by_their_number() {
    let numbers: alloc::vec::Vec<u16> = ErrorCode::ALL.iter().map(|code| code.number()).collect();
    assert!(numbers.is_sorted_by(|earlier, later| earlier < later));
    for number in 0..=u16::MAX {
        let code = ErrorCode::from_number(number);
        assert_eq!(code.is_some(), numbers.contains(&number), "{number}");
        assert!(code.is_none_or(|code| code.number() == number));
    }
}

#[test]
fn what_has_been_published_keeps_its_number() {
    // Append-only: a line may be added here, none may change.
    for (number, code) in [
        (1, ErrorCode::InvalidPlan),
        (2, ErrorCode::ParkFallback),
        (3, ErrorCode::ExecutorFallback),
        (4, ErrorCode::ExecutorRefused),
        (5, ErrorCode::InvalidExecutor),
        (6, ErrorCode::PendedInline),
        (7, ErrorCode::Stalled),
        (8, ErrorCode::Backend),
        (32, ErrorCode::BadMessage),
        (59, ErrorCode::DeadlineExpired),
        (65, ErrorCode::Forked),
    ] {
        assert_eq!(code.number(), number);
    }
}

#[test]
fn an_error_shows_its_name_its_number_and_its_text() {
    let error = Error::new(ErrorCode::Stalled, "executor: 2 tasks left");
    assert_eq!(error.to_string(), "Stalled (7): executor: 2 tasks left");
}

#[test]
fn the_page_has_every_code_and_all_it_says() {
    let page = docs_page();
    for code in ErrorCode::ALL {
        let heading = format!("\n## {} {}\n", code.number(), code.name());
        assert_eq!(page.matches(&heading).count(), 1, "{code}");
        for part in [code.form(), code.cause(), code.remedy(), code.blame().label()] {
            assert!(!part.is_empty() && page.contains(part), "{code}: {part}");
        }
    }
}
