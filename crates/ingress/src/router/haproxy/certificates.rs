//! Certificates in the running HAProxy: its list of them, what the list names, and authorities, changed through the socket.
//!
//! A certificate is in memory before a line names it, and a host's new line is there before its old one goes. What no line names
//! any more goes from memory and from the disk.

use super::{Layout, Live, Need, Socket, SocketError, backend};
use crate::router::{
    model::{Certificate, Host, Model},
    settings::Settings,
};
use std::{
    collections::{HashMap, HashSet},
    fs,
    path::{Path, PathBuf},
};

/// One line of the list: which certificate a name has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    name: String,
    pub(super) certificate: Certificate,
    http2: bool,
}

impl Line {
    pub(super) fn text(&self, layout: &Layout) -> String {
        let alpn = if self.http2 { " [alpn h2,http/1.1]" } else { "" };
        format!("{}{alpn} {}", layout.certificate(self.certificate.fingerprint()).display(), self.name)
    }
}

/// All lines. HTTP/2 is offered only with a certificate that no other host uses: a browser would send requests for the other
/// host over the same connection.
pub(super) fn lines(model: &Model, settings: &Settings) -> Vec<Line> {
    let mut uses: HashMap<&str, u32> = HashMap::new();
    for certificate in model.certificates().values() {
        *uses.entry(certificate.fingerprint()).or_default() += 1;
    }
    let line = |(host, certificate): (&Host, &Certificate)| {
        let alone = uses.get(certificate.fingerprint()) == Some(&1) && !matches!(host, Host::Below(_));
        let http2 = alone && settings.tls.http2;
        Some(Line { name: backend::certificate_name(host)?, certificate: certificate.clone(), http2 })
    };
    model.certificates().iter().filter_map(line).collect()
}

/// The first line of the list. HAProxy takes its certificate for every name that has none, and would take it also for each name
/// in it, before a Route's own one, if the line did not say a name that nobody asks for.
pub(super) fn default_line(file: &Path) -> String {
    format!("{} default.invalid", file.display())
}

/// The list of the running HAProxy, by name. Lines are numbered from 1, which is the default's, and no number is used twice.
#[derive(Debug)]
pub(super) struct Listed {
    lines: HashMap<String, (u64, Line)>,
    last: u64,
    /// The file of the certificate for other names. What is in memory under its name may be newer.
    default: PathBuf,
}

impl Listed {
    /// As a generation's file has it.
    pub(super) fn new(lines: Vec<Line>, default: PathBuf) -> Self {
        let numbered = (2..).zip(lines).map(|(number, line)| (line.name.clone(), (number, line)));
        let lines: HashMap<_, _> = numbered.collect();
        Self { last: lines.values().map(|(number, _)| *number).max().unwrap_or(1), lines, default }
    }

    fn fingerprints(&self) -> HashSet<String> {
        self.lines.values().map(|(_, line)| line.certificate.fingerprint().to_owned()).collect()
    }
}

/// A line that is to go when nothing leads to its host by the old way any more.
pub(super) struct Outdated(u64, Line);

impl Live {
    /// Brings certificates that came or changed.
    pub(super) fn certify(
        &mut self,
        model: &Model,
        socket: &mut Socket,
        need: &mut Option<Need>,
    ) -> Result<Vec<Outdated>, SocketError> {
        let wanted = lines(model, &self.settings);
        let names: HashSet<&str> = wanted.iter().map(|line| line.name.as_str()).collect();
        let gone: Vec<String> =
            self.listed.lines.keys().filter(|name| !names.contains(name.as_str())).cloned().collect();
        let mut loaded = self.listed.fingerprints();
        let mut outdated: Vec<Outdated> = gone
            .into_iter()
            .filter_map(|name| self.listed.lines.remove(&name))
            .map(|(number, line)| Outdated(number, line))
            .collect();
        let list = self.layout.certificates(self.number());
        for line in wanted {
            if self.listed.lines.get(&line.name).is_some_and(|(_, known)| *known == line) {
                continue;
            }
            if !loaded.contains(line.certificate.fingerprint()) {
                if !self.fits_a_command(line.certificate.pem()) {
                    *need = need.or(Some(Need::Certificate));
                    continue;
                }
                let file = self.layout.certificate(line.certificate.fingerprint());
                let created = |answer: &str| answer.contains("New empty");
                socket.execute(&format!("new ssl cert {}", file.display()), created)?;
                put("cert", &file, line.certificate.pem(), socket)?;
                loaded.insert(line.certificate.fingerprint().to_owned());
            }
            let command = format!("add ssl crt-list {} <<\n{}\n", list.display(), line.text(&self.layout));
            socket.execute(&command, |answer| answer.contains("Success"))?;
            self.listed.last += 1;
            let old = self.listed.lines.insert(line.name.clone(), (self.listed.last, line));
            outdated.extend(old.map(|(number, line)| Outdated(number, line)));
        }
        Ok(outdated)
    }

    /// Takes lines away, and certificates that no other line names.
    pub(super) fn forget_certificates(
        &mut self,
        outdated: &[Outdated],
        socket: &mut Socket,
    ) -> Result<(), SocketError> {
        let list = self.layout.certificates(self.number());
        let file = |line: &Line| self.layout.certificate(line.certificate.fingerprint());
        for Outdated(number, line) in outdated {
            let command = format!("del ssl crt-list {} {}:{number}", list.display(), file(line).display());
            socket.execute(&command, |answer| answer.contains("deleted"))?;
        }
        let used = self.listed.fingerprints();
        let unused: HashSet<PathBuf> = outdated
            .iter()
            .filter(|Outdated(_, line)| !used.contains(line.certificate.fingerprint()))
            .map(|Outdated(_, line)| file(line))
            .collect();
        for file in unused {
            socket.execute(&format!("del ssl cert {}", file.display()), |answer| answer.contains("deleted"))?;
            // What cannot be removed now goes with the next generation.
            let _ = fs::remove_file(file);
        }
        Ok(())
    }

    /// Another certificate for names that have none of their own.
    pub fn set_default_certificate(&mut self, certificate: &Certificate, socket: &mut Socket) -> Option<Need> {
        let set = self
            .fits_a_command(certificate.pem())
            .then(|| put("cert", &self.listed.default, certificate.pem(), socket));
        let _ = fs::remove_file(&self.listed.default);
        needed(set)
    }

    /// Other authorities of Services' certificates. Servers that are there keep those they were made with, whatever the socket is
    /// told (HAProxy lists such a file as unused), so a new generation has to make them anew.
    pub fn set_service_ca(&mut self, pem: &str) -> Option<Need> {
        pem.clone_into(&mut self.service_ca);
        self.authorities.contains(&self.layout.service_ca()).then_some(Need::File)
    }

    /// Makes sure that HAProxy has an authority, under the name of its file. False when that cannot be.
    pub(super) fn load_authority(&mut self, file: &Path, pem: &str, socket: &mut Socket) -> bool {
        if self.authorities.contains(file) {
            return true;
        }
        if !self.fits_a_command(pem) {
            return false;
        }
        let created = |answer: &str| answer.contains("created");
        let outcome = socket
            .execute(&format!("new ssl ca-file {}", file.display()), created)
            .and_then(|()| put("ca-file", file, pem, socket));
        match outcome {
            Ok(()) => self.authorities.insert(file.to_owned()),
            Err(error) => {
                tracing::info!(%error, "HAProxy does not take an authority while it runs");
                return false;
            }
        };
        true
    }

    /// A command must fit into one of HAProxy's buffers, with its first line.
    fn fits_a_command(&self, pem: &str) -> bool {
        let longest = usize::try_from(self.settings.resources.buffer / 4 * 3).unwrap_or(usize::MAX);
        pem.len() <= longest && !pem.trim().contains("\n\n")
    }
}

fn needed(outcome: Option<Result<(), SocketError>>) -> Option<Need> {
    match outcome {
        Some(Ok(())) => None,
        Some(Err(error)) => {
            tracing::info!(%error, "HAProxy does not take a certificate while it runs");
            Some(Need::Certificate)
        }
        None => Some(Need::Certificate),
    }
}

/// Sets the content of something that HAProxy has under this name. New connections have it at once.
fn put(kind: &str, file: &Path, pem: &str, socket: &mut Socket) -> Result<(), SocketError> {
    let (file, pem) = (file.display(), pem.trim());
    socket.execute(&format!("set ssl {kind} {file} <<\n{pem}\n"), |answer| answer.contains("ransaction"))?;
    socket.execute(&format!("commit ssl {kind} {file}"), |answer| answer.contains("Success"))
}
