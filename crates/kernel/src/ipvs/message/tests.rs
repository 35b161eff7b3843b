//! The bytes of every message, in the order of a little-endian machine, and reading what the kernel answers.

use super::*;

const ROOM: u16 = 0x1f;

fn key(at: &str) -> ServerKey {
    ServerKey { protocol: Protocol::Tcp, at: at.parse().unwrap() }
}

fn server(at: &str, persistence: u32) -> Server {
    Server { key: key(at), scheduler: "rr".to_owned(), persistence }
}

/// After the small header, as the kernel would answer.
fn body(message: Message) -> Vec<u8> {
    let text = message.golden();
    (8..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

#[test]
fn a_server_of_each_family_is_these_bytes() {
    for (at, persistence, bytes) in [
        (
            "10.0.0.1:80",
            0,
            "01010000\
             54000180\
             0600010002000000\
             0600020006000000\
             140003000a000001000000000000000000000000\
             0600040000500000\
             0700060072720000\
             0c00070000000000ffffffff\
             0800080000000000\
             08000900ffffffff",
        ),
        (
            "[fd00::1]:443",
            10800,
            "01010000\
             54000180\
             060001000a000000\
             0600020006000000\
             14000300fd000000000000000000000000000001\
             0600040001bb0000\
             0700060072720000\
             0c00070001000000ffffffff\
             08000800302a0000\
             0800090080000000",
        ),
    ] {
        let made = service(ROOM, Command::NewService, &server(at, persistence));
        assert_eq!(made.golden(), bytes);
        // To delete, the key is enough.
        let deleted = service(ROOM, Command::DeleteService, &server(at, persistence)).golden();
        assert_eq!(deleted, format!("0301000030000180{}", &bytes[16..104]));
    }
}

#[test]
fn a_destination_of_each_family_is_these_bytes() {
    for (server, at, bytes) in [
        (
            "10.0.0.1:80",
            "10.1.0.2:8080",
            "05010000\
             30000180\
             0600010002000000\
             0600020006000000\
             140003000a000001000000000000000000000000\
             0600040000500000\
             48000280\
             140001000a010002000000000000000000000000\
             060002001f900000\
             0800030000000000\
             0800040001000000\
             0800050000000000\
             0800060000000000\
             06000b0002000000",
        ),
        (
            "[fd00::1]:80",
            "[fd01::2]:8080",
            "05010000\
             30000180\
             060001000a000000\
             0600020006000000\
             14000300fd000000000000000000000000000001\
             0600040000500000\
             48000280\
             14000100fd010000000000000000000000000002\
             060002001f900000\
             0800030000000000\
             0800040001000000\
             0800050000000000\
             0800060000000000\
             06000b000a000000",
        ),
    ] {
        let made = destination(ROOM, Command::NewDestination, &key(server), at.parse().unwrap(), Some(1));
        assert_eq!(made.golden(), bytes);
    }
}

#[test]
fn questions_and_timeouts_are_these_bytes() {
    assert_eq!(find("IPVS").golden(), "03010000090002004950565300000000");
    assert_eq!(list_services(ROOM).golden(), "04010000");
    let timeouts = Timeouts { tcp: std::time::Duration::from_secs(900), ..Timeouts::default() };
    assert_eq!(config(ROOM, timeouts).golden(), "0c0100000800040084030000");
    assert_eq!(found(&[6, 0, 1, 0, 0x1f, 0, 0, 0]), Some(ROOM));
    assert_eq!(found(&[]), None);
}

#[test]
fn what_was_written_reads_back_and_cut_off_answers_are_none() {
    for (at, other) in [("10.0.0.1:80", "10.1.0.2:8080"), ("[fd00::1]:80", "[fd01::2]:8080")] {
        let wanted = server(at, 60);
        let bytes = body(service(ROOM, Command::NewService, &wanted));
        assert_eq!(read_service(&bytes), Some(wanted));
        let made = body(destination(ROOM, Command::NewDestination, &key(at), other.parse().unwrap(), Some(0)));
        let read = read_destination(&key(at), &made).unwrap();
        assert_eq!((read.at, read.weight, read.connections), (other.parse().unwrap(), 0, 0));
        for cut in 0..bytes.len() {
            assert_eq!(read_service(&bytes[..cut]), None, "{cut}");
        }
        for cut in 0..made.len() {
            assert_eq!(read_destination(&key(at), &made[..cut]), None, "{cut}");
        }
    }
}
