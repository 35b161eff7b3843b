//! UDP flows that are never begun anew: each keeps its socket, and so its source port, and goes on sending while Services
//! change under it, as resolvers and media servers do.

use super::PATIENCE;
use crate::wait_for;
use kernel::netns::Namespace;
use std::{
    io::ErrorKind,
    net::{SocketAddr, UdpSocket},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

/// Between two datagrams of a flow.
const PAUSE: Duration = Duration::from_millis(15);
/// So many answers of one kind in a row are no chance.
const IN_A_ROW: usize = 4;

/// What a flow heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// The answer of this pod.
    Pod(usize),
    /// That nobody is there.
    Refused,
    /// From its own kernel, that it must not send.
    Forbidden,
}

/// What a flow is for, and how it went since it was last asked.
#[derive(Debug)]
struct State {
    label: String,
    to: SocketAddr,
    sent: usize,
    heard: Vec<Heard>,
}

/// Flows that go on in the background until the handle is dropped.
pub struct Flows {
    states: Arc<Mutex<Vec<State>>>,
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Flows {
    /// Begins a flow for each label, from a namespace to an address.
    pub fn begin(wanted: Vec<(String, &Namespace, SocketAddr)>) -> Self {
        let mut sockets = Vec::new();
        let mut states = Vec::new();
        for (label, from, to) in wanted {
            sockets.push(connected(from, to));
            states.push(State { label, to, sent: 0, heard: Vec::new() });
        }
        let (states, stop) = (Arc::new(Mutex::new(states)), Arc::new(AtomicBool::new(false)));
        let (shared, stopped) = (Arc::clone(&states), Arc::clone(&stop));
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                for (at, socket) in sockets.iter().enumerate() {
                    let sent = socket.send(b"?").map_err(|error| error.kind());
                    let state = &mut lock(&shared)[at];
                    state.sent += 1;
                    state.heard.extend(sent.err().and_then(heard));
                    while let Some(heard) = receive(socket) {
                        state.heard.push(heard);
                    }
                }
                pause();
            }
        });
        Self { states, stop, thread: Some(thread) }
    }

    /// Waits until each flow whose label begins like this has sent a few datagrams since it was last asked.
    #[track_caller]
    pub fn go_on(&self, label: &str) {
        self.ask_anew();
        self.until(label, "goes on", |state| state.sent > IN_A_ROW);
    }

    /// Waits until all flows whose labels begin like this hear only this, several times in a row.
    #[track_caller]
    pub fn all_hear(&self, label: &str, expected: &[Heard]) {
        self.ask_anew();
        self.until(label, &format!("hears {expected:?}"), |state| {
            let last = state.heard.iter().rev().take(IN_A_ROW);
            last.clone().count() == IN_A_ROW && last.clone().all(|heard| expected.contains(heard))
        });
    }

    /// What flows whose labels begin like this heard since the call, until each has heard something several times.
    #[track_caller]
    pub fn hear_now(&self, label: &str) -> Vec<(String, Vec<Heard>)> {
        self.ask_anew();
        self.until(label, "hears something", |state| state.heard.len() > 2 * IN_A_ROW);
        let states = lock(&self.states);
        let mine = states.iter().filter(|state| state.label.starts_with(label));
        mine.map(|state| (format!("{} {}", state.label, state.to), state.heard.clone())).collect()
    }

    /// Waits until flows whose labels begin like this have sent a few datagrams, and no pod answers any more.
    #[track_caller]
    pub fn no_pod_answers(&self, label: &str) {
        self.ask_anew();
        self.until(label, "is answered by no pod", |state| {
            let answered = state.heard.iter().any(|heard| matches!(heard, Heard::Pod(_)));
            if answered {
                (state.sent, state.heard) = (0, Vec::new());
            }
            !answered && state.sent > 4 * IN_A_ROW
        });
    }

    fn ask_anew(&self) {
        for state in lock(&self.states).iter_mut() {
            (state.sent, state.heard) = (0, Vec::new());
        }
    }

    #[track_caller]
    fn until(&self, label: &str, what: &str, good: impl Fn(&mut State) -> bool) {
        let bad = || -> Vec<String> {
            let mut states = lock(&self.states);
            let mine = states.iter_mut().filter(|state| state.label.starts_with(label));
            let bad = mine.filter_map(|state| (!good(state)).then_some(state));
            bad.map(|state| {
                let last: Vec<Heard> = state.heard.iter().rev().take(IN_A_ROW).copied().collect();
                format!("{} {}: {} sent, last heard {last:?}", state.label, state.to, state.sent)
            })
            .collect()
        };
        let done = wait_for(PATIENCE, || bad().is_empty().then_some(()));
        assert!(done.is_some(), "not every flow {label:?} {what}:\n{}", bad().join("\n"));
    }
}

impl Drop for Flows {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(thread::JoinHandle::join);
    }
}

/// Who answers a new flow, if somebody does.
pub fn ask_udp(from: &Namespace, to: SocketAddr) -> Option<Heard> {
    let socket = connected(from, to);
    socket.set_nonblocking(false).expect("a socket");
    socket.set_read_timeout(Some(Duration::from_millis(700))).expect("a timeout");
    match socket.send(b"?") {
        Ok(_) => receive(&socket),
        Err(error) => heard(error.kind()),
    }
}

fn connected(from: &Namespace, to: SocketAddr) -> UdpSocket {
    let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let connected = from.within(|| {
        let socket = UdpSocket::bind(any)?;
        socket.connect(to)?;
        socket.set_nonblocking(true)?;
        Ok::<_, std::io::Error>(socket)
    });
    connected.expect("entered").expect("a socket")
}

fn receive(socket: &UdpSocket) -> Option<Heard> {
    let mut answer = [0; 16];
    match socket.recv(&mut answer) {
        Ok(length) => std::str::from_utf8(&answer[..length]).ok()?.parse().ok().map(Heard::Pod),
        Err(error) => heard(error.kind()),
    }
}

fn heard(error: ErrorKind) -> Option<Heard> {
    match error {
        ErrorKind::ConnectionRefused => Some(Heard::Refused),
        ErrorKind::PermissionDenied => Some(Heard::Forbidden),
        _ => None,
    }
}

fn lock(states: &Mutex<Vec<State>>) -> MutexGuard<'_, Vec<State>> {
    states.lock().expect("no thread has failed")
}

#[allow(clippy::disallowed_methods, reason = "a client that sends at a pace")]
fn pause() {
    thread::sleep(PAUSE);
}
