//! Where certificates of a node are: `kubelet-client-current.pem` leads to `kubelet-client-2026-11-18-06-00-00.pem`, as upstream has it.

use jiff::Timestamp;
use runtime::pki::{Identity, PendingKey, PkiError, Validity};
use std::{
    io,
    path::{Path, PathBuf},
    time::SystemTime,
};

/// The files of one certificate.
#[derive(Clone, Debug)]
pub struct Files {
    folder: PathBuf,
    name: &'static str,
}

impl Files {
    /// What the node shows to the API server.
    #[must_use]
    pub fn client(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), name: "kubelet-client" }
    }

    /// What it shows to those who ask it.
    #[must_use]
    pub fn serving(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), name: "kubelet-server" }
    }

    /// The file that always is the newest.
    #[must_use]
    pub fn current_path(&self) -> PathBuf {
        self.folder.join(format!("{}-current.pem", self.name))
    }

    fn pending_path(&self) -> PathBuf {
        self.folder.join(format!("{}.key.tmp", self.name))
    }

    /// The newest certificate, if it holds now.
    #[must_use]
    pub fn current(&self, now: SystemTime) -> Option<Identity> {
        let path = self.current_path();
        if !path.exists() {
            return None;
        }
        match Identity::load(&path) {
            Ok(identity) => Some(identity).filter(|identity| holds(identity.validity(), now)),
            Err(error) => {
                tracing::warn!(error = error.to_string(), "a certificate cannot be used; another is asked for");
                None
            }
        }
    }

    /// The key that a certificate is asked for.
    pub(super) fn pending(&self) -> Result<PendingKey, PkiError> {
        PendingKey::load_or_create(&self.pending_path())
    }

    /// The next certificate is for another key.
    pub(super) fn forget_pending(&self) {
        // It may be gone already.
        let _ = std::fs::remove_file(self.pending_path());
    }

    /// Makes a certificate the newest: whoever is killed here has either it or the one before.
    pub(super) fn save(&self, identity: &Identity, now: Timestamp) -> Result<(), PkiError> {
        let current = self.current_path();
        let failed = |source| PkiError::Write { path: current.clone(), source };
        let dated = format!("{}-{}.pem", self.name, now.strftime("%Y-%m-%d-%H-%M-%S"));
        let before = std::fs::read_link(&current).ok();
        identity.save(&self.folder.join(&dated))?;
        self.point(&dated).map_err(failed)?;
        self.forget_pending();
        self.remove_others(&dated, before.as_deref());
        Ok(())
    }

    fn point(&self, dated: &str) -> io::Result<()> {
        let new = self.folder.join(format!("{}-updated.pem", self.name));
        match std::fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        std::os::unix::fs::symlink(dated, &new)?;
        std::fs::rename(new, self.current_path())
    }

    /// The newest and the one before it stay.
    fn remove_others(&self, newest: &str, before: Option<&Path>) {
        let kept = |name: &str| name == newest || before.is_some_and(|before| before == Path::new(name));
        let dated = |name: &str| {
            let rest = name.strip_prefix(self.name).and_then(|rest| rest.strip_prefix('-'));
            rest.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
        };
        for entry in std::fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if dated(&name) && !kept(&name) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
}

pub(super) fn holds(validity: Validity, now: SystemTime) -> bool {
    (validity.not_before..=validity.not_after).contains(&now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::pki::{Authority, Purpose};
    use std::time::Duration;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn the_newest_certificate_counts_and_the_one_before_stays() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::client(folder.path());
        let now = SystemTime::now();
        assert_eq!(files.current(now), None);
        let authority = Authority::create("test", now).unwrap();
        let purpose = Purpose::Client { user: "a".to_owned(), groups: Vec::new() };
        let all: Vec<Identity> = (0..3).map(|_| authority.issue(&purpose, now).unwrap()).collect();
        files.pending().unwrap();
        for (identity, second) in all.iter().zip(["00", "01", "02"]) {
            files.save(identity, at(&format!("2026-11-18T06:00:{second}Z"))).unwrap();
            assert_eq!(files.current(now).as_ref(), Some(identity));
        }
        let mut names: Vec<String> = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(
            names,
            [
                "kubelet-client-2026-11-18-06-00-01.pem",
                "kubelet-client-2026-11-18-06-00-02.pem",
                "kubelet-client-current.pem"
            ]
        );
        assert_eq!(files.current(now + Duration::from_secs(2 * 365 * 86_400)), None, "it has run out");
        std::fs::write(folder.path().join("kubelet-client-2026-11-18-06-00-02.pem"), "damaged").unwrap();
        assert_eq!(files.current(now), None);
    }
}
