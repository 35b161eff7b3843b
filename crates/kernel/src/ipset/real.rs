//! ipset of this machine, over netlink.

use super::{
    Change, Entry, Ipset, IpsetError, Set,
    message::{self, Command},
};
use crate::netlink::Socket;
use std::{io, thread, time::Duration};

const BUSY: [i32; 2] = [4100, 4108];
/// A rule that is gone lets go of its set a moment later.
const TRIES: usize = 20;
const PAUSE: Duration = Duration::from_millis(100);

/// The kernel of this machine, in the network namespace of the calling thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealIpset;

impl RealIpset {
    /// Whether the kernel has ipset. Asking makes it load the module; two who ask at once may both be refused, so one asks
    /// first.
    pub fn probe(&self) -> Result<(), IpsetError> {
        let asked = Socket::open().and_then(|socket| socket.ask(message::version()));
        asked.map_err(|error| {
            // What netlink says when nobody listens.
            let missing = error.kind() == io::ErrorKind::InvalidInput;
            let advice = "there is none; load it with `modprobe ip_set`, or use --proxy-mode=nftables";
            let why = if missing { advice.to_owned() } else { error.to_string() };
            IpsetError { set: "of this kernel".to_owned(), what: "use it", why }
        })
    }
}

impl Ipset for RealIpset {
    fn make(&self, set: &Set) -> Result<(), IpsetError> {
        // Not exclusive: the same set once more is as wanted.
        Socket::open()
            .and_then(|socket| socket.ask(message::create(set)))
            .map_err(|error| IpsetError::new(set, "make it", &error))
    }

    fn entries(&self, set: &Set) -> Result<Option<Vec<Entry>>, IpsetError> {
        let mut entries = Vec::new();
        let listed = Socket::open().and_then(|socket| {
            socket.dump(message::named(Command::List, set), |answer| entries.extend(message::read(set.kind, answer)))
        });
        match listed {
            Ok(()) => Ok(Some(entries)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(IpsetError::new(set, "list it", &error)),
        }
    }

    fn change(&self, changes: &[Change]) -> Result<(), IpsetError> {
        let Some(Change::Add(first, _) | Change::Remove(first, _)) = changes.first() else { return Ok(()) };
        let socket = Socket::open().map_err(|error| IpsetError::new(first, "open netlink", &error))?;
        changes.iter().try_for_each(|change| match change {
            Change::Add(set, entry) => socket
                .ask(message::entry(Command::Add, set, entry))
                .map_err(|error| IpsetError::new(set, "add an entry", &error)),
            Change::Remove(set, entry) => socket
                .ask(message::entry(Command::Remove, set, entry))
                .map_err(|error| IpsetError::new(set, "remove an entry", &error)),
        })
    }

    #[expect(clippy::disallowed_methods, reason = "the kernel tells nobody when a rule has let go of its set; bounded")]
    fn destroy(&self, set: &Set) -> Result<(), IpsetError> {
        let once = || Socket::open().and_then(|socket| socket.ask(message::named(Command::Destroy, set)));
        let mut done = once();
        for _ in 0..TRIES {
            match &done {
                Err(error) if error.raw_os_error().is_some_and(|code| BUSY.contains(&code)) => thread::sleep(PAUSE),
                _ => break,
            }
            done = once();
        }
        match done {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done.map_err(|error| IpsetError::new(set, "remove it", &error)),
        }
    }
}
