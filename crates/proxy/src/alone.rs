//! One proxy per node: two would undo each other's work.

use std::{
    io,
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener},
    },
};

/// Holds the place as long as it lives, also if the process is killed.
#[derive(Debug)]
pub struct Alone {
    _socket: UnixListener,
}

/// Somebody else is here.
#[derive(Debug, thiserror::Error)]
pub enum AloneError {
    /// Another proxy.
    #[error("another twinstack proxy runs in this network namespace; stop it first")]
    Taken,
    /// The kernel says no.
    #[error("cannot make sure that no other proxy runs: {0}")]
    Io(#[from] io::Error),
}

impl Alone {
    /// Takes the place. An abstract socket belongs to a network namespace, as the rules do, and leaves no file behind.
    pub fn take() -> Result<Self, AloneError> {
        let address = SocketAddr::from_abstract_name("twinstack-proxy")?;
        match UnixListener::bind_addr(&address) {
            Ok(socket) => Ok(Self { _socket: socket }),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(AloneError::Taken),
            Err(error) => Err(error.into()),
        }
    }
}
