//! Who has a port, for the message that it is taken. Called by `bind` after "address in use"; finding nobody is fine.

use super::Transport;
use std::path::Path;

/// `name (pid 12)` of a process that listens on `port` in either family. Processes of other users and of other
/// namespaces stay unseen unless we are root.
pub(super) fn of_port(transport: Transport, port: u16) -> Option<String> {
    let tables = match transport {
        Transport::Tcp => ["/proc/net/tcp", "/proc/net/tcp6"],
        Transport::Udp => ["/proc/net/udp", "/proc/net/udp6"],
    };
    let links: Vec<String> = tables
        .iter()
        .filter_map(|table| std::fs::read_to_string(table).ok())
        .flat_map(|table| inodes(&table, transport, port))
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    if links.is_empty() {
        return None;
    }
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    processes.filter(|process| holds(&process.path(), &links)).find_map(|process| {
        let pid: u32 = process.file_name().to_str()?.parse().ok()?;
        let name = std::fs::read_to_string(process.path().join("comm")).ok()?;
        Some(format!("{} (pid {pid})", name.trim_end()))
    })
}

fn holds(process: &Path, links: &[String]) -> bool {
    let Ok(descriptors) = std::fs::read_dir(process.join("fd")) else { return false };
    descriptors
        .flatten()
        .filter_map(|descriptor| std::fs::read_link(descriptor.path()).ok())
        .any(|target| links.iter().any(|link| target.as_os_str() == link.as_str()))
}

/// The inodes of sockets that listen on `port`, from a table such as `/proc/net/tcp`: the second column is the local
/// address, the fourth the state (0A listens, 07 is an unconnected UDP socket), the tenth the inode.
fn inodes(table: &str, transport: Transport, port: u16) -> Vec<u64> {
    let listening = match transport {
        Transport::Tcp => "0A",
        Transport::Udp => "07",
    };
    table
        .lines()
        .skip(1)
        .filter_map(|line| {
            let columns: Vec<&str> = line.split_whitespace().collect();
            let [_, local, _, state, _, _, _, _, _, inode, ..] = columns[..] else { return None };
            let local_port = u16::from_str_radix(local.rsplit_once(':')?.1, 16).ok()?;
            if local_port == port && state == listening { inode.parse().ok() } else { None }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_listeners_of_the_port_count_in_either_family() {
        let v4 = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 111 1 0 100 0 0 10 0
   1: 0100007F:1F90 0100007F:C001 01 00000000:00000000 00:00000000 00000000     0        0 222 1 0 20 4 30 10 -1
   2: 0100007F:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 333 1 0 100 0 0 10 0
";
        let v6 = "  sl  local_address                         remote_address                        st ...
   0: 00000000000000000000000001000000:1F90 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 444 1 0
";
        assert_eq!(inodes(v4, Transport::Tcp, 8080), [111]);
        assert_eq!(inodes(v6, Transport::Tcp, 8080), [444]);
        assert!(inodes(v4, Transport::Udp, 8080).is_empty());
    }

    proptest! {
        #[test]
        fn any_table_is_read_without_panic(table in "[ 0-9A-F:\n]{0,200}") {
            inodes(&table, Transport::Tcp, 1);
        }
    }
}
