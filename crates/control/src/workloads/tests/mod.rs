//! What the controllers of workloads share, and all of them on a whole API server in memory.

mod batch;
mod faults;
pub(crate) mod in_process;
mod stateful;

use super::*;

#[test]
fn percentages_are_rounded_as_asked() {
    let text = |text: &str| IntOrString::String(text.to_owned());
    for (value, total, up, down) in [
        (IntOrString::Int(3), 10, 3, 3),
        (text("25%"), 10, 3, 2),
        (text("25%"), 4, 1, 1),
        (text("0%"), 4, 0, 0),
        (text("100%"), 7, 7, 7),
        (text("many"), 7, 0, 0),
    ] {
        assert_eq!(scaled(Some(&value), total, Round::Up), up, "{value:?} of {total}");
        assert_eq!(scaled(Some(&value), total, Round::Down), down, "{value:?} of {total}");
    }
    assert_eq!(scaled(None, 7, Round::Up), 0);
}
