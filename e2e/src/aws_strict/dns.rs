//! DNS on loopback: the names of load balancers, and what the hosted zones say.

use super::{
    refusal::Refusal,
    rules::{Set, World, hosted, sets_of, zones},
    server::ServerState,
};
use dns::wire::{
    Limits, Name, Reject, Reply, Request, Section,
    code::{class, rcode, rtype},
};
use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::Arc,
};
use tokio::net::UdpSocket;

const TTL: u32 = 60;
/// How many CNAMEs and aliases are followed.
const HOPS: usize = 8;

/// What there is at a name.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    Addresses(Vec<IpAddr>),
    /// Another name says it.
    Alias(String),
    /// The same, and whoever asks is told so.
    Cname(String),
    /// There is something, but not of this type.
    Other,
    Nothing,
    /// Nobody here knows.
    Elsewhere,
}

/// The addresses of a load balancer: one of each subnet, the same every time, out of the ranges for documentation.
fn addresses(dns_name: &str, subnets: &[String], rtype: u16) -> Vec<IpAddr> {
    let hash = |subnet: &String| runtime::stable_hash(format!("{dns_name}{subnet}").as_bytes());
    let address = |subnet: &String| {
        let [a, b, c, d, e, f, g, h] = hash(subnet).to_be_bytes();
        if rtype == rtype::AAAA {
            let half = |high: u8, low: u8| u16::from_be_bytes([high, low]);
            IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, half(a, b), half(c, d), half(e, f), half(g, h)))
        } else {
            IpAddr::V4(Ipv4Addr::new(198, 18 + (a & 1), b, c))
        }
    };
    subnets.iter().map(address).collect()
}

fn of_set(sets: &[&Set], rtype: u16) -> Found {
    let wanted = rtype::name(rtype).unwrap_or_default();
    if let Some(set) = sets.iter().find(|set| set.kind == wanted) {
        return match &set.alias {
            Some((_, target)) => Found::Alias(target.clone()),
            None => Found::Addresses(set.values.iter().filter_map(|value| value.parse().ok()).collect()),
        };
    }
    let cname = sets.iter().find(|set| set.kind == "CNAME").and_then(|set| set.values.first());
    match cname {
        Some(target) => Found::Cname(format!("{}.", target.trim_end_matches('.').to_lowercase())),
        None if sets.is_empty() => Found::Nothing,
        None => Found::Other,
    }
}

/// What is at a name in lower case with its last dot.
async fn find(world: &World, name: &str, rtype: u16) -> Result<Found, Refusal> {
    let bare = name.trim_end_matches('.');
    let bare = bare.strip_prefix("dualstack.").unwrap_or(bare);
    if let Some(one) = hosted(world).await?.iter().find(|one| one.dns_name.eq_ignore_ascii_case(bare)) {
        let has = rtype == rtype::A || rtype == rtype::AAAA && one.dual_stack;
        return Ok(if has { Found::Addresses(addresses(bare, &one.subnets, rtype)) } else { Found::Other });
    }
    let zones = zones(world).await?;
    let within = |domain: &str| name == domain || name.ends_with(&format!(".{domain}"));
    let Some((id, _)) = zones.iter().filter(|(_, domain)| within(domain)).max_by_key(|(_, domain)| domain.len()) else {
        return Ok(Found::Elsewhere);
    };
    let sets = sets_of(world, id).await?;
    let at = |name: &str| sets.iter().filter(|set| set.name == name).collect::<Vec<_>>();
    let mut here = at(name);
    let mut rest = name;
    while let (true, Some((_, above))) = (here.is_empty(), rest.split_once('.')) {
        here = at(&format!("*.{above}"));
        rest = above;
    }
    Ok(of_set(&here, rtype))
}

async fn fill(world: &World, request: &Request, reply: &mut Reply) -> Result<(), Refusal> {
    let mut owner = request.name;
    let mut name = request.name.lower().to_string();
    for _ in 0..HOPS {
        if !name.ends_with('.') {
            name.push('.');
        }
        match find(world, &name, request.rtype).await? {
            Found::Addresses(list) => {
                list.into_iter().for_each(|address| reply.add_address(Section::Answer, &owner, TTL, address));
                return Ok(());
            }
            Found::Alias(target) => name = target,
            Found::Cname(target) => {
                let Ok(next) = Name::parse(&target) else { break };
                let record = dns::wire::Record::pointer(owner, rtype::CNAME, TTL, &next);
                reply.add(Section::Answer, &record);
                owner = next;
                name = target;
            }
            Found::Other => return Ok(()),
            Found::Nothing => {
                reply.rcode = rcode::NXDOMAIN;
                return Ok(());
            }
            Found::Elsewhere => {
                reply.rcode = if owner == request.name { rcode::REFUSED } else { rcode::NOERROR };
                return Ok(());
            }
        }
    }
    reply.rcode = rcode::SERVFAIL;
    Ok(())
}

/// Answers until it is dropped.
pub(super) async fn run(socket: UdpSocket, shared: Arc<ServerState>) {
    let mut packet = [0; 1500];
    let mut reply = Reply::new();
    loop {
        let Ok((length, from)) = socket.recv_from(&mut packet).await else { return };
        let request = match Request::parse(&packet[..length]) {
            Ok(request) => request,
            Err(Reject::Ignore) => continue,
            Err(Reject::Answer(code)) => {
                if let Some(header) = Reply::header_only(&packet[..length], code) {
                    let _ = socket.send_to(&header, from).await;
                }
                continue;
            }
        };
        reply.reset(&request.name, request.rtype, request.class);
        reply.aa = true;
        let world = shared.world.lock().await;
        if request.class != class::IN || fill(&world, &request, &mut reply).await.is_err() {
            reply.rcode = rcode::SERVFAIL;
        }
        drop(world);
        let limits = Limits { size: request.edns.map_or(512, |edns| usize::from(edns.size)), nsid: None, cookie: None };
        // Whoever asked may be gone.
        let _ = socket.send_to(reply.finish(&request, &limits), from).await;
    }
}
