//! What can be wrong with keys and certificates.

use std::{io, path::PathBuf, time::SystemTime};

/// Not retryable unless said: someone must mend or remove a file, or ask for something else.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// A file could not be read.
    #[error("{}: cannot be read: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// A file could not be written. May pass, e.g. when a disk was full.
    #[error("{}: cannot be written: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    /// A file that does not hold what it should.
    #[error("{}: {problem}; expected {expected}; restore the file, or remove it to have a new one made", path.display())]
    Damaged {
        path: PathBuf,
        problem: String,
        /// What should be there.
        expected: &'static str,
    },
    /// A certificate and a key that were not made for each other.
    #[error("{}: the certificate does not belong to the key in {}", certificate.display(), key.display())]
    Mismatch {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
    },
    /// An authority without its key.
    #[error("{}: there is a certificate but no key in {}; restore the key, or remove both to start anew", certificate.display(), key.display())]
    KeyMissing {
        /// The certificate's file.
        certificate: PathBuf,
        /// Where the key should be.
        key: PathBuf,
    },
    /// An authority that is no longer valid.
    #[error("{}: the authority expired at {}; replace it and everything it signed", path.display(), shown(*not_after))]
    Expired {
        /// The certificate's file.
        path: PathBuf,
        /// Its last second.
        not_after: SystemTime,
    },
    /// A certificate that another authority signed.
    #[error("{}: was not signed by the authority in use; remove it to have a new one made", path.display())]
    Foreign { path: PathBuf },
    /// A name that cannot stand in a certificate.
    #[error("{0:?} cannot be a name in a certificate; give a DNS name, or an address as such")]
    Name(String),
    /// Certificate making failed.
    #[error("certificate: {0}")]
    Make(#[from] rcgen::Error),
    /// TLS refused a key or certificate.
    #[error("tls: {0}")]
    Tls(#[from] rustls::Error),
    /// A key that cannot be used.
    #[error("key: {0}")]
    Key(String),
    /// The system gave no random bytes. May pass.
    #[error("no random bytes: {0}")]
    Random(#[from] getrandom::Error),
}

fn shown(time: SystemTime) -> String {
    jiff::Timestamp::try_from(time).map_or_else(|_| "a time out of range".to_owned(), |time| time.to_string())
}
