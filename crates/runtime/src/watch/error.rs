//! Why a view may be out of date. Nothing to act on: the watch lists again by itself.

use kube::core::Status;

/// What went wrong; what is known stays until the next list replaces it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The list was refused, or there was no answer.
    #[error("cannot list: {0}")]
    List(#[source] kube::Error),
    /// The watch was refused, or there was no answer.
    #[error("cannot watch: {0}")]
    Start(#[source] kube::Error),
    /// The server ended the watch with a status; 410 where the version is too old.
    #[error("the watch was ended: {0}")]
    Ended(#[source] Box<Status>),
    /// The connection broke.
    #[error("the watch broke off: {0}")]
    Broken(#[source] kube::Error),
    /// Nothing was heard for longer than the server had promised.
    #[error("nothing was heard for {0} seconds")]
    Silent(u64),
    /// An answer without a version: this is no Kubernetes API.
    #[error("an answer without metadata.resourceVersion")]
    NoVersion,
    /// The versions are older than those that were known: the server was restored from a backup, or is another one.
    #[error("the API's version went back from {known} to {found}; everything is taken from its list")]
    WentBack {
        /// The newest that was known.
        known: u64,
        /// That of the list.
        found: u64,
    },
}

impl Error {
    /// Whether the API says that it has no such kind.
    #[must_use]
    pub fn is_not_served(&self) -> bool {
        self.code() == Some(404)
    }

    /// Whether the API answered; else it could not be reached, which `client` tells for the whole process.
    #[must_use]
    pub fn is_answer(&self) -> bool {
        self.code().is_some() || matches!(self, Self::WentBack { .. } | Self::NoVersion)
    }

    /// The status that the API answered with.
    #[must_use]
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::List(kube::Error::Api(status))
            | Self::Start(kube::Error::Api(status))
            | Self::Broken(kube::Error::Api(status))
            | Self::Ended(status) => Some(status.code),
            _ => None,
        }
    }
}
