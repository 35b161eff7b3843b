//! Where HAProxy's files and sockets are.

use super::jail::Jail;
use crate::router::{model::Map, text};
use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// Where things are kept. Only the router's user comes in here; HAProxy, where it is another one, sees the folder of sockets
/// and nothing else.
#[derive(Clone, Debug)]
pub struct Layout {
    folder: PathBuf,
    jail: Option<Jail>,
}

impl Layout {
    /// In this folder, whose path must need no quotes.
    pub fn new(folder: &Path) -> Result<Self, String> {
        // A comma ends a word of HAProxy's expressions.
        match folder.to_str().is_some_and(|path| text::is_plain_file(path) && !path.contains(',')) {
            true => Ok(Self { folder: folder.to_owned(), jail: None }),
            false => Err(format!(
                "{} cannot be used; accepted: an absolute path of letters, digits and /-._+@=",
                folder.display()
            )),
        }
    }

    /// The same with an HAProxy that is somebody else.
    #[must_use]
    pub fn with_jail(self, jail: Option<Jail>) -> Self {
        Self { jail, ..self }
    }

    /// Who HAProxy is, if not who the router is.
    pub fn jail(&self) -> Option<Jail> {
        self.jail
    }

    /// The folder itself.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder of sockets that HAProxy connects to itself.
    pub(super) fn sockets(&self) -> PathBuf {
        self.folder.join("run")
    }

    /// Makes the folder of sockets. Whoever is HAProxy may go through it, but neither list it nor put anything in; the folder around
    /// it is closed to him, whoever made it.
    pub fn make_sockets(&self) -> io::Result<()> {
        let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
        fs::create_dir_all(self.sockets())?;
        match self.jail {
            Some(_) => set(&self.folder, 0o700).and_then(|()| set(&self.sockets(), 0o711)),
            None => set(&self.sockets(), 0o700),
        }
    }

    /// A path in the folder of sockets as HAProxy has it once it runs.
    pub(super) fn as_seen(&self, socket: &Path) -> PathBuf {
        match (self.jail, socket.strip_prefix(self.sockets())) {
            (Some(_), Ok(inside)) => Path::new("/").join(inside),
            _ => socket.to_owned(),
        }
    }

    /// A bind's words for a socket that HAProxy connects to itself, and nobody else may.
    pub(super) fn own_socket_words(&self) -> String {
        let owner = self.jail.map(|jail| format!(" uid {} gid {}", jail.uid, jail.gid)).unwrap_or_default();
        format!("mode 600{owner}")
    }

    /// The runtime socket. It is the router's alone.
    pub fn admin(&self) -> PathBuf {
        self.folder.join("admin.sock")
    }

    /// There when a successor takes HAProxy over, so that this router leaves it running.
    pub fn hand_over(&self) -> PathBuf {
        hand_over(&self.folder)
    }

    /// Where HAProxy writes its process id.
    pub fn pid(&self) -> PathBuf {
        self.folder.join("haproxy.pid")
    }

    /// Where access logs for the router arrive.
    pub fn log(&self) -> PathBuf {
        self.sockets().join("log.sock")
    }

    /// Between the frontend that reads names and the one that ends TLS.
    pub(super) fn tls(&self) -> PathBuf {
        self.sockets().join("tls.sock")
    }

    /// Between the frontend that waits for the header of the PROXY protocol and the one behind it.
    pub(super) fn behind_header(&self, name: &str) -> PathBuf {
        self.sockets().join(format!("{name}.sock"))
    }

    /// A generation's folder.
    pub fn generation(&self, number: u64) -> PathBuf {
        self.folder.join(format!("generation-{number}"))
    }

    /// The configuration of a generation.
    pub fn config(&self, number: u64) -> PathBuf {
        self.generation(number).join("haproxy.cfg")
    }

    /// A map of a generation; its path is also its name on the socket.
    pub fn map(&self, number: u64, map: Map) -> PathBuf {
        let name = match map {
            Map::HttpExact => "http-exact.map",
            Map::HttpPrefix => "http-prefix.map",
            Map::TlsExact => "tls-exact.map",
            Map::TlsPrefix => "tls-prefix.map",
            Map::Sni => "sni.map",
            Map::Claimed => "claimed.map",
        };
        self.generation(number).join(name)
    }

    /// Which certificate each name has, in a generation.
    pub(super) fn certificates(&self, number: u64) -> PathBuf {
        self.generation(number).join("certificates.list")
    }

    /// The certificate for other names. It is a file of its own, because its content changes under the same name.
    pub(super) fn default_certificate(&self, fingerprint: &str) -> PathBuf {
        self.key_folder().join(format!("default-{fingerprint}.pem"))
    }

    /// What certificates of Services are checked against.
    pub(crate) fn service_ca(&self) -> PathBuf {
        self.key_folder().join("service-ca.pem")
    }

    /// Where certificates with their keys are, and authorities.
    pub(super) fn key_folder(&self) -> PathBuf {
        self.folder.join("certificates")
    }

    pub(super) fn certificate(&self, fingerprint: &str) -> PathBuf {
        self.key_folder().join(format!("{fingerprint}.pem"))
    }

    /// What pods are checked against.
    pub(crate) fn authority(&self, pem: &str) -> PathBuf {
        self.key_folder().join(format!("ca-{}.pem", text::digest(pem)))
    }
}
/// Who ends a router in a working folder in order to start another one there makes this file first.
pub fn hand_over(folder: &Path) -> PathBuf {
    folder.join("hand-over")
}
