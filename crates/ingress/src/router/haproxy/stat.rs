//! The table of `show stat`, read by the names of its columns.

/// Asks for the whole table.
pub const SHOW_ALL: &str = "show stat";

/// Asks for the row of one backend.
pub fn show_backend(name: &str) -> String {
    format!("show stat {name} 2 -1")
}

/// One frontend, backend or server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row<'a> {
    /// The frontend or backend.
    pub proxy: &'a str,
    /// `FRONTEND`, `BACKEND` or a server's name.
    pub service: &'a str,
    /// What stands in the columns that were asked for; empty where HAProxy has nothing to say.
    pub cells: Vec<&'a str>,
}

/// Reads the table. Lines that do not fit its head are left out.
pub fn rows<'a>(csv: &'a str, wanted: &[&str]) -> Vec<Row<'a>> {
    let mut lines = csv.lines();
    let Some(head) = lines.next().and_then(|line| line.strip_prefix("# ")) else { return Vec::new() };
    let columns: Vec<&str> = head.split(',').collect();
    let place = |name: &str| columns.iter().position(|column| *column == name);
    let (Some(proxy), Some(service)) = (place("pxname"), place("svname")) else { return Vec::new() };
    let places: Vec<Option<usize>> = wanted.iter().map(|name| place(name)).collect();
    let row = |line: &'a str| {
        let cells: Vec<&str> = line.split(',').collect();
        let at = |place: &Option<usize>| place.and_then(|place| cells.get(place).copied()).unwrap_or_default();
        Some(Row { proxy: cells.get(proxy)?, service: cells.get(service)?, cells: places.iter().map(at).collect() })
    };
    lines.filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_by_name() {
        let csv = "# svname,pxname,stot,status,\nFRONTEND,public,7,OPEN,\ns1,be,,UP,\nbroken\n";
        let found = rows(csv, &["status", "stot", "none"]);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0], Row { proxy: "public", service: "FRONTEND", cells: vec!["OPEN", "7", ""] });
        assert_eq!(found[1].cells, ["UP", "", ""]);
        assert!(rows("", &["stot"]).is_empty());
    }
}
