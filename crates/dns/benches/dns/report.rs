//! The tables.

use crate::load::LoadResult;

/// A row of the first table.
pub(crate) struct Row {
    pub(crate) server: &'static str,
    pub(crate) what: String,
    pub(crate) full: LoadResult,
    pub(crate) paced: LoadResult,
    pub(crate) dnsperf: Option<(f64, f64)>,
    pub(crate) resident: u64,
}

/// CPU per query against the echo loop, flat out.
const TARGET: f64 = 1.3;

pub(crate) fn queries(rows: &[Row]) {
    println!("## DNS: queries to one core\n");
    println!(
        "| server | queries | us CPU/query | against echo | queries/s | lost | p99 at 10,000/s | us CPU/query at 10,000/s | dnsperf queries/s (lost) | memory |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    let echo = rows.iter().find(|row| row.server == "echo loop").map_or(f64::NAN, |row| row.full.cpu_per_query());
    for row in rows {
        let dnsperf = row
            .dnsperf
            .map_or_else(|| "-".to_owned(), |(rate, lost)| format!("{} ({:.2} %)", thousands(rate), lost * 100.0));
        println!(
            "| {} | {} | {:.2} | {:.2}x | {} | {:.3} % | {:.0} us | {:.2} | {} | {:.1} MB |",
            row.server,
            row.what,
            row.full.cpu_per_query(),
            row.full.cpu_per_query() / echo,
            thousands(row.full.per_second()),
            row.full.loss() * 100.0,
            row.paced.p99.as_secs_f64() * 1e6,
            row.paced.cpu_per_query(),
            dnsperf,
            megabytes(row.resident),
        );
    }
    println!("\nTarget: within {TARGET}x of the echo loop.\n");
}

/// Memory and time to the first answer, by number of Services.
pub(crate) fn memory(rows: &[(u32, &'static str, u64, std::time::Duration)]) {
    println!("## DNS: memory by Services (dual-stack, an endpoint of each family)\n");
    println!("| Services | server | memory | ready after |");
    println!("|---|---|---|---|");
    for (services, server, resident, ready) in rows {
        println!("| {services} | {server} | {:.1} MB | {:.2} s |", megabytes(*resident), ready.as_secs_f64());
    }
    println!();
}

/// One number of templates: of how many zones, whose, what it costs.
pub(crate) struct Templates {
    pub(crate) server: &'static str,
    pub(crate) templates: u32,
    pub(crate) zones: u32,
    pub(crate) passed: LoadResult,
    pub(crate) filtered: Option<LoadResult>,
    pub(crate) resident: u64,
}

pub(crate) fn templates(rows: &[Templates]) {
    println!("## DNS: templates\n");
    println!(
        "| server | templates x zones | us CPU per cluster name | more than none | us CPU per filtered AAAA | memory without Services | more per template |"
    );
    println!("|---|---|---|---|---|---|---|");
    for row in rows {
        let none = rows.iter().find(|other| other.server == row.server && other.templates == 0);
        let (cpu, memory) = none.map_or((f64::NAN, 0), |none| (none.passed.cpu_per_query(), none.resident));
        let more = row.resident.saturating_sub(memory) as f64 / f64::from(row.templates.max(1)) / 1e6;
        println!(
            "| {} | {} x {} | {:.2} | {:+.1} % | {} | {:.1} MB | {more:.2} MB |",
            row.server,
            row.templates,
            row.zones,
            row.passed.cpu_per_query(),
            (row.passed.cpu_per_query() / cpu - 1.0) * 100.0,
            row.filtered.map_or_else(|| "-".to_owned(), |seen| format!("{:.2}", seen.cpu_per_query())),
            megabytes(row.resident),
        );
    }
    println!("\nTargets: under 5 % and under 1 MB for each template.\n");
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
