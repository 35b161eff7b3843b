//! `twinstack netexec`: a server that tells who asks whom, for tests of networks.

use super::Command;
use crate::{
    component,
    flag::{DefaultFlag, flags, hosts, port},
};
use node::netexec::{NetexecOptions, start};
use runtime::{config::Settings, listen::Hosts};

pub(super) const COMMAND: Command = Command {
    name: "netexec",
    about: "tell who asks whom, to test networks",
    more: "Answers by HTTP, TCP, UDP, and SCTP where the kernel has it, with its host name, the address of who asks and the address that was asked: \
           /hostname, /clientip, /local, /who, /echo?msg=, /header?key=; the same words by line or datagram. /dial asks another one from here. /make-not-serving and /make-serving \
           say what /healthz and gRPC's health protocol answer. \
           `twinstack image --kind netexec` makes an image of it.",
    example: "twinstack netexec --http-port 8080 --udp-port 8081\n\
              curl 'http://[::1]:8080/dial?host=127.0.0.1&port=8081&protocol=udp&request=clientip'",
    flags: &[FLAGS],
    positional: None,
    long_running: true,
    check: |given| {
        options(given);
        Some(())
    },
    run,
};

flags! {
    FLAGS:
    NETEXEC_ADDRESS: DefaultFlag<Hosts> = hosts("bind-address", "addresses to answer on").or("0.0.0.0,::");
    HTTP_PORT: DefaultFlag<u16> = port("http-port", "port of HTTP; 0 for none").or("8080");
    HTTPS_PORT: DefaultFlag<u16> = port("https-port", "port of HTTPS, with a certificate that nobody knows; 0 for none").or("0");
    TCP_PORT: DefaultFlag<u16> = port("tcp-port", "port of lines by TCP; 0 for none").or("8082");
    UDP_PORT: DefaultFlag<u16> = port("udp-port", "port of datagrams; 0 for none").or("8081");
    SCTP_PORT: DefaultFlag<u16> = port("sctp-port", "port of SCTP; 0 for none").or("0");
}

fn options(given: &mut Settings) -> NetexecOptions {
    NetexecOptions {
        hosts: given.get(&NETEXEC_ADDRESS),
        http_port: given.get(&HTTP_PORT),
        https_port: given.get(&HTTPS_PORT),
        tcp_port: given.get(&TCP_PORT),
        udp_port: given.get(&UDP_PORT),
        sctp_port: given.get(&SCTP_PORT),
    }
}

fn run(given: Settings) -> anyhow::Result<()> {
    let (log, options) = given.read(|given| Some((component::log(given), options(given))))?;
    component::run(&log, async |_, tasks| {
        start(&options, &tasks)?;
        tracing::info!("ready");
        Ok(())
    })
}
