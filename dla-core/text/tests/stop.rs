//! Stop strings: the pieces that a text comes in do not matter.

use dla_text::Stop;
use proptest::prelude::*;

fn stop(strings: &[&str]) -> Stop {
    Stop::new(strings.iter().map(ToString::to_string)).expect("no empty string")
}

/// What is let through of `pieces`, and the stop string that was hit.
fn through<'a>(
    strings: &[&str],
    pieces: impl IntoIterator<Item = &'a str>,
) -> (String, Option<String>) {
    let mut stop = stop(strings);
    let mut text: String = pieces.into_iter().map(|piece| stop.push(piece)).collect();
    text += &stop.finish();
    (text, stop.hit().map(str::to_owned))
}

#[test]
fn the_first_complete_one_counts() {
    let cases: [(&[&str], &str, &str, Option<&str>); 8] = [
        (&[], "all of it", "all of it", None),
        (&["x"], "no such letter", "no such letter", None),
        (&["END"], "one END two END", "one ", Some("END")),
        (&["abc", "ab"], "xabc", "x", Some("ab")),
        (&["bcd", "abcde"], "abcde", "a", Some("bcd")),
        (&["c", "abc"], "abc", "", Some("abc")),
        (&["aab"], "aaab", "a", Some("aab")),
        (&["né"], "un née", "un ", Some("né")),
    ];
    for (strings, text, want, hit) in cases {
        let want = (want.to_owned(), hit.map(str::to_owned));
        assert_eq!(through(strings, [text]), want, "{strings:?} in {text:?}");
    }
}

#[test]
fn only_what_could_go_on_is_held_back() {
    let mut stop = stop(&["STOP"]);
    assert_eq!(stop.push("a ST"), "a ");
    assert_eq!(stop.push("AR"), "STAR");
    assert_eq!(stop.push(" STO"), " ");
    assert_eq!(stop.finish(), "STO");
    assert_eq!(stop.hit(), None);
}

#[test]
fn after_a_hit_nothing_comes() {
    let mut stop = stop(&["."]);
    assert_eq!(stop.push("one. two"), "one");
    assert_eq!(
        (stop.push("three"), stop.finish()),
        (String::new(), String::new())
    );
    assert_eq!(stop.hit(), Some("."));
}

#[test]
fn an_empty_stop_string_is_refused() {
    let error = Stop::new(["a".to_owned(), String::new()]).expect_err("an empty one");
    assert!(error.is_input(), "{error}");
}

proptest! {
    #[test]
    fn pieces_do_not_matter(text in "[abé]{0,24}", strings in prop::collection::vec("[abé]{1,4}", 0..4)) {
        let strings: Vec<&str> = strings.iter().map(String::as_str).collect();
        let letters = text.char_indices().map(|(at, c)| &text[at..at + c.len_utf8()]);
        let (whole, hit) = through(&strings, [&*text]);
        prop_assert_eq!(through(&strings, letters), (whole.clone(), hit.clone()));
        prop_assert!(text.starts_with(&whole));
        match hit {
            Some(hit) => prop_assert!(text[whole.len()..].starts_with(&hit)),
            None => {
                prop_assert_eq!(&whole, &text);
                prop_assert!(strings.iter().all(|stop| !text.contains(stop)));
            }
        }
    }
}
