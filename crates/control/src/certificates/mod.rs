//! Requests for certificates: approved where the asker has the right to it, signed, and cleared away.
//!
//! Mirrors kube-controller-manager's controllers of the same names. `plan` has the rules; a signer is a name with the files of its
//! authority, which are read for each certificate, so that a new authority counts at once.

pub mod plan;

mod approve;
mod clean;
mod publish;
mod sign;
#[cfg(test)]
mod tests;

use crate::framework::Controller;
use api::kinds::certificates::{CLIENT_SIGNER, KUBELET_CLIENT_SIGNER, KUBELET_SERVING_SIGNER, LEGACY_SIGNER};
use std::{path::PathBuf, time::Duration};

/// The controllers of this room.
pub const CONTROLLERS: &[Controller] = &[
    Controller {
        name: "certificatesigningrequest-signing-controller",
        alias: "csrsigning",
        default_on: true,
        run: |context| Box::pin(sign::run(context)),
    },
    Controller {
        name: "certificatesigningrequest-approving-controller",
        alias: "csrapproving",
        default_on: true,
        run: |context| Box::pin(approve::run(context)),
    },
    Controller {
        name: "certificatesigningrequest-cleaner-controller",
        alias: "csrcleaner",
        default_on: true,
        run: |context| Box::pin(clean::run(context)),
    },
    Controller {
        name: "podcertificaterequest-cleaner-controller",
        alias: "",
        default_on: true,
        run: |context| Box::pin(clean::run_pods(context)),
    },
    Controller {
        name: "kube-apiserver-serving-clustertrustbundle-publisher-controller",
        alias: "",
        default_on: true,
        run: |context| Box::pin(publish::run(context)),
    },
];

/// Every signer of Kubernetes itself.
pub const SIGNERS: [&str; 4] = [KUBELET_SERVING_SIGNER, KUBELET_CLIENT_SIGNER, CLIENT_SIGNER, LEGACY_SIGNER];

/// The certificate and the key of an authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorityFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// What flags decide here; the defaults are upstream's.
#[derive(Clone, Debug)]
pub struct CertificateOptions {
    /// The authority of each signer, in the order of [`SIGNERS`]; one without signs nothing.
    pub authorities: [Option<AuthorityFiles>; 4],
    /// `--cluster-signing-duration`: the longest life of a certificate.
    pub duration: Duration,
}

impl Default for CertificateOptions {
    fn default() -> Self {
        Self { authorities: [const { None }; 4], duration: Duration::from_secs(365 * 86_400) }
    }
}

impl CertificateOptions {
    /// All signers sign with one authority.
    pub fn sign_with(&mut self, files: &AuthorityFiles) {
        self.authorities = std::array::from_fn(|_| Some(files.clone()));
    }

    fn authority(&self, signer: &str) -> Option<&AuthorityFiles> {
        SIGNERS.iter().position(|known| *known == signer).and_then(|index| self.authorities[index].as_ref())
    }
}
