//! Files of the environment that HAProxy reads when it starts and at no other time.

use super::{settings::Settings, text};
use std::{fs, path::PathBuf};

/// Another text for another content, so that HAProxy is replaced when one of them changes.
pub(super) fn fingerprint(settings: &Settings) -> String {
    let (tls, http) = (&settings.tls, &settings.http);
    let content = |file: &Option<PathBuf>| file.as_ref().and_then(|file| fs::read(file).ok()).unwrap_or_default();
    let all = [&tls.client_ca, &tls.client_crl, &http.error_503, &http.error_404];
    all.map(|file| text::digest_of(&content(file))).concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_comes_changes_or_goes_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let page = folder.path().join("503.http");
        let variables = [("ROUTER_ERRORFILE_503".to_owned(), page.display().to_string())];
        let settings = Settings::from_environment(variables).unwrap();
        let mut seen = vec![fingerprint(&settings)];
        for content in ["one", "two"] {
            fs::write(&page, content).unwrap();
            seen.push(fingerprint(&settings));
            assert_eq!(seen.last(), Some(&fingerprint(&settings)), "the same while nothing changes");
        }
        assert!(seen[0] != seen[1] && seen[1] != seen[2] && seen[0] != seen[2], "{seen:?}");
        fs::remove_file(&page).unwrap();
        assert_eq!(fingerprint(&settings), seen[0]);
    }
}
