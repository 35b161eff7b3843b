//! Fills and empties a pool, tenth by tenth: time per operation may grow as a tree's depth and cache misses do, no faster.
//!
//! `cargo bench -p net` works with 1,000,000 addresses; run as a test it works with 10,000 and only has to finish.

use net::{ServiceIpPool, ServiceRange};
use std::{net::IpAddr, time::Instant};

fn main() {
    let benchmark = std::env::args().any(|arg| arg == "--bench");
    let count = if benchmark { 1_000_000 } else { 10_000 };
    println!("{count} addresses, nanoseconds per operation for each tenth of them");
    println!(
        "{:<14}{:<9}{:>5}{:>7}{:>7}{:>7}{:>7}{:>7}{:>7}{:>7}{:>7}{:>7}",
        "range", "", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
    );
    // Both pools are filled before either is emptied: memory that the first gives back would hide the second's.
    let filled =
        ["10.0.0.0/8", "fd00::/64"].map(|range| fill(range.parse().expect("a literal of the right size"), count));
    filled.into_iter().for_each(empty);
}

fn fill(range: ServiceRange, count: usize) -> (ServiceIpPool, Vec<IpAddr>) {
    let mut given = vec![range.first(); count];
    let before = resident_bytes();
    let pool = ServiceIpPool::new(range, 1);
    print_row(&pool, "reserve", &mut given, |address| {
        *address = pool.reserve_any().expect("the range is larger than the count").commit();
    });
    match before.zip(resident_bytes()) {
        Some((before, after)) => println!("{:<14}{} bytes per address", "", after.saturating_sub(before) / count),
        None => println!("{:<14}memory is not known on this system", ""),
    }
    (pool, given)
}

fn empty((pool, mut given): (ServiceIpPool, Vec<IpAddr>)) {
    print_row(&pool, "release", &mut given, |address| {
        pool.release(*address);
    });
    assert_eq!(pool.used(), 0, "everything that was given came back");
}

fn print_row(pool: &ServiceIpPool, operation: &str, addresses: &mut [IpAddr], mut act: impl FnMut(&mut IpAddr)) {
    print!("{:<14}{operation:<8}", pool.to_string());
    let tenth = addresses.len() / 10;
    for chunk in addresses.chunks_mut(tenth) {
        let start = Instant::now();
        chunk.iter_mut().for_each(&mut act);
        print!("{:>7}", start.elapsed().as_nanos() / tenth as u128);
    }
    println!();
}

/// Memory of this process that is in RAM, where `/proc` tells.
fn resident_bytes() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.trim().strip_suffix(" kB")?;
    Some(kilobytes.parse::<usize>().ok()? * 1024)
}
