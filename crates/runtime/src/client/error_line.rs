//! What went wrong, in one line for the log: the API server's own words where it spoke, else the chain of causes.

use kube::core::Status;
use std::{error::Error, fmt::Write as _, iter};

/// The API server's message if it answered with one; else each cause that says something new.
#[must_use]
pub fn error_line(error: &(dyn Error + 'static)) -> String {
    let chain = || iter::successors(Some(error), |error| (**error).source());
    if let Some(status) = chain().find_map(status) {
        return if status.message.is_empty() { status.reason.clone() } else { status.message.clone() };
    }
    let mut line = String::new();
    for words in chain().map(ToString::to_string) {
        if !line.contains(&words) {
            let colon = if line.is_empty() { "" } else { ": " };
            let _ = write!(line, "{colon}{words}");
        }
    }
    line
}

/// Whether there was no answer at all: told once for the whole process when the API goes, so that nobody else need warn of it.
#[must_use]
pub fn is_unreachable(error: &(dyn Error + 'static)) -> bool {
    let gone = |error: &kube::Error| {
        matches!(error, kube::Error::Service(_) | kube::Error::HyperError(_) | kube::Error::ReadEvents(_))
    };
    iter::successors(Some(error), |error| (**error).source()).any(|one| one.downcast_ref().is_some_and(gone))
}

/// Errors of kube hold it in a box, which is what they name as their cause.
fn status<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Status> {
    match error.downcast_ref::<kube::Error>() {
        Some(kube::Error::Api(status)) => Some(status),
        _ => error.downcast_ref::<Box<Status>>().map(|status| &**status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::runtime::watcher;
    use std::io;

    #[derive(Debug, thiserror::Error)]
    #[error("not reached")]
    struct Outer(#[source] io::Error);

    #[derive(Debug, thiserror::Error)]
    #[error("not reached: {0}")]
    struct Repeats(#[source] io::Error);

    #[test]
    fn only_silence_is_unreachable() {
        let refused = || kube::Error::Service(Box::new(io::Error::other("refused")));
        assert!(is_unreachable(&refused()));
        assert!(is_unreachable(&watcher::Error::InitialListFailed(refused())));
        let status = Status::failure("no", "NotFound").with_code(404).boxed();
        assert!(!is_unreachable(&kube::Error::Api(status)));
        assert!(!is_unreachable(&io::Error::other("refused")));
    }

    #[test]
    fn one_line_says_everything_once() {
        let status = || Box::new(Status::failure("services \"web\" not found", "NotFound").with_code(404));
        let silent = Box::new(Status::failure("", "NotFound"));
        let errors: [(Box<dyn Error>, &str); 7] = [
            (Box::new(kube::Error::Api(status())), "services \"web\" not found"),
            (Box::new(kube::Error::Api(silent)), "NotFound"),
            (Box::new(watcher::Error::WatchStartFailed(kube::Error::Api(status()))), "services \"web\" not found"),
            (Box::new(watcher::Error::WatchError(status())), "services \"web\" not found"),
            (Box::new(Outer(io::Error::other("refused"))), "not reached: refused"),
            (Box::new(Repeats(io::Error::other("refused"))), "not reached: refused"),
            ("plain words".into(), "plain words"),
        ];
        for (error, line) in errors {
            assert_eq!(error_line(&*error), line, "{error:?}");
        }
    }
}
