//! The table of `show stat`, read by the names of its columns.

use std::collections::HashMap;

/// One frontend, backend or server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The frontend or backend.
    pub proxy: String,
    /// `FRONTEND`, `BACKEND` or a server's name.
    pub service: String,
    values: HashMap<String, String>,
}

impl Row {
    /// A number of this row; none where HAProxy has nothing to say.
    pub fn number(&self, column: &str) -> Option<u64> {
        self.values.get(column)?.parse().ok()
    }

    /// `UP`, `DOWN`, `MAINT`, `no check`, `OPEN` and variations.
    pub fn status(&self) -> &str {
        self.values.get("status").map_or("", String::as_str)
    }
}

/// Reads the table. Lines that do not fit its head are left out.
pub fn rows(csv: &str) -> Vec<Row> {
    let mut lines = csv.lines();
    let Some(head) = lines.next().and_then(|line| line.strip_prefix("# ")) else { return Vec::new() };
    let columns: Vec<&str> = head.split(',').collect();
    lines.filter_map(|line| row(&columns, line)).collect()
}

fn row(columns: &[&str], line: &str) -> Option<Row> {
    let named = columns.iter().map(|name| (*name).to_owned());
    let mut values: HashMap<String, String> = named.zip(line.split(',').map(str::to_owned)).collect();
    values.retain(|_, value| !value.is_empty());
    Some(Row { proxy: values.remove("pxname")?, service: values.remove("svname")?, values })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_by_name() {
        let found = rows("# svname,pxname,stot,status,\nFRONTEND,public,7,OPEN,\ns1,be,,UP,\nbroken\n");
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].proxy.as_str(), found[0].number("stot"), found[0].status()), ("public", Some(7), "OPEN"));
        assert_eq!(found[1].number("stot"), None);
        assert!(rows("").is_empty());
    }
}
