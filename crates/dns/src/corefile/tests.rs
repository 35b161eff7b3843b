//! Files as tables, problems with their places, and texts of any kind.

use super::*;
use proptest::prelude::*;
use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

#[derive(Default)]
struct Fake(BTreeMap<&'static str, &'static str>);

impl Files for Fake {
    fn read(&self, path: &Path) -> io::Result<String> {
        let found = path.to_str().and_then(|path| self.0.get(path));
        found.map(|text| (*text).to_owned()).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
    fn matching(&self, pattern: &Path) -> io::Result<Vec<PathBuf>> {
        let prefix = pattern.to_str().unwrap().split('*').next().unwrap();
        Ok(self.0.keys().filter(|path| path.starts_with(prefix)).map(PathBuf::from).collect())
    }
    fn variable(&self, name: &str) -> String {
        if name == "PORT" { "5353".to_owned() } else { String::new() }
    }
}

fn files() -> Fake {
    Fake(BTreeMap::from([
        ("conf/a.conf", "errors\nlog"),
        ("conf/b.conf", "cache 30"),
        ("conf/loop.conf", "import loop.conf"),
        ("conf/server.conf", "b {\n any\n}"),
    ]))
}

fn read(text: &str) -> Result<Corefile, Problem> {
    parse("conf/Corefile", text, &files())
}

#[test]
fn files_are_read_as_they_are_meant() {
    for (text, printed) in [
        (".:53 {\n}\n", ".:53 {\n}\n"),
        (". {\n errors # why\n\tlog\n}", ". {\n    errors\n    log\n}\n"),
        ("a b, c,\nd {\n whoami\n}", "a b c d {\n    whoami\n}\n"),
        (".:53\nerrors\ncache 30\n", ".:53 {\n    errors\n    cache 30\n}\n"),
        ("localhost", "localhost {\n}\n"),
        ("\u{feff}.\r\n{\r\n errors\r\n}\r\n", ". {\n    errors\n}\n"),
        (
            ". {\n forward . 192.0.2.1 { \n max_fails 3\n}\n}",
            ". {\n    forward . 192.0.2.1 {\n        max_fails 3\n    }\n}\n",
        ),
        (". {\n log . { class error }\n}", ". {\n    log . {\n        class error\n    }\n}\n"),
        (
            r#". { template IN A { answer "{{ .Name }} \"x\" \. \\" } }"#,
            r#". {
    template IN A {
        answer "{{ .Name }} \"x\" \. \\"
    }
}
"#,
        ),
        (".:{$PORT} {\n bind {%NONE%}x{$}\n}", ".:5353 {\n    bind x{$}\n}\n"),
        (". {\n x \"a {$PORT}\nb\"\n}", ". {\n    x \"a 5353\nb\"\n}\n"),
        (". {\n x a#b\n y a\"b\"\n}", ". {\n    x a\n    y a\"b\"\n}\n"),
        (". {\n x \"{\" \"\"\n}", ". {\n    x \"{\" \"\"\n}\n"),
        (
            "(s) {\n errors\n log { class all\n }\n}\n. {\n import s\n any\n}",
            ". {\n    errors\n    log {\n        class all\n    }\n    any\n}\n",
        ),
        (". {\n import a.conf\n any\n}", ". {\n    errors\n    log\n    any\n}\n"),
        (". {\n import *.none\n}", ". {\n}\n"),
        ("import server.conf\n. {\n}", "b {\n    any\n}\n. {\n}\n"),
    ] {
        let text = text.replace("*.none", "z*");
        let file = read(&text).unwrap_or_else(|problem| panic!("{text}\n{problem}"));
        assert_eq!(file.to_string(), printed, "{text}");
    }
}

#[test]
fn problems_say_where_and_what() {
    for (text, expected) in [
        (". {\n errors", "conf/Corefile:2:1: \"\": the file ends where } is expected"),
        ("}", "conf/Corefile:1:1: \"}\": there is no block to close here"),
        (". {\n}\n}", "conf/Corefile:3:1: \"}\": there is no block to close here"),
        ("{\n}", "conf/Corefile:1:1: \"{\": a server block begins with at least one zone"),
        (". {\n {\n}", "conf/Corefile:2:2: \"{\": a directive is expected here"),
        (". {\n}\na\nb", "conf/Corefile:4:1: \"b\": { is expected; only a file with a single block may go without"),
        (". {\n x \"abc\n}", "conf/Corefile:2:4: \"abc\\n}\": this quote is never closed"),
        (". {\n import\n}", "conf/Corefile:2:2: \"import\": needs the name of a file or a snippet"),
        (". {\n import none.conf\n}", "conf/Corefile:2:9: \"none.conf\": cannot be imported: entity not found"),
        (". {\n import a b {\n }\n}", "conf/Corefile:2:13: \"{\": import takes no block"),
        (". {\n import *?\n}", "conf/Corefile:2:9: \"*?\": at most one * or ? may be in a pattern"),
        (
            ". {\n import loop.conf\n}",
            "conf/loop.conf:1:8: \"loop.conf\": more than 10000 imports; does it import itself?",
        ),
        ("(s) {\n}\n(s) {\n}\n", "conf/Corefile:3:1: \"(s)\": there already is a snippet of this name"),
    ] {
        assert_eq!(read(text).unwrap_err().to_string(), expected, "{text}");
    }
}

#[test]
fn blocks_have_an_end_to_their_depth() {
    let problem = read(&format!(". {{\n{}", "a {\n".repeat(100_000))).unwrap_err().to_string();
    assert_eq!(problem, "conf/Corefile:52:3: \"{\": more than 50 blocks within blocks");
}

#[test]
fn keys_become_zones_and_ports_and_networks_become_reverse_zones() {
    for (text, expected) in [
        (".", ". 53"),
        (".:5353", ". 5353"),
        ("dns://Example.ORG:1053", "example.org. 1053"),
        (":1053", ". 1053"),
        ("10.0.0.0/8", "10.in-addr.arpa. 53"),
        ("10.0.0.0/23", "0.0.10.in-addr.arpa. 53, 1.0.10.in-addr.arpa. 53"),
        ("192.0.2.7/32:99", "7.2.0.192.in-addr.arpa. 99"),
        ("0.0.0.0/0", "in-addr.arpa. 53"),
        ("0.0.0.0/7", "0.in-addr.arpa. 53, 1.in-addr.arpa. 53"),
        ("2001:db8::/32", "8.b.d.0.1.0.0.2.ip6.arpa. 53"),
        ("fd00::/7", "c.f.ip6.arpa. 53, d.f.ip6.arpa. 53"),
        ("::/0", "ip6.arpa. 53"),
    ] {
        let file = read(&format!("{text} {{\n}}")).unwrap();
        let addresses = Address::parse(&file.blocks[0].keys[0], 53).unwrap_or_else(|problem| panic!("{problem}"));
        let shown: Vec<String> = addresses.iter().map(|a| format!("{} {}", a.zone, a.port)).collect();
        assert_eq!(shown.join(", "), expected, "{text}");
    }
    for (text, expected) in [
        ("quic://.", "quic:// is not served here; accepted: dns://, tls://, https://"),
        ("ftp://.", "unknown scheme; accepted: dns://, tls://, https://"),
        (".:99999", "the port is not a number up to 65535"),
        ("10.0.0.0/33", "the prefix length is not a number up to 32"),
        ("a..b", "the zone has an empty label"),
    ] {
        let file = read(&format!("{text} {{\n}}")).unwrap();
        let problem = Address::parse(&file.blocks[0].keys[0], 53).unwrap_err().to_string();
        assert!(problem.ends_with(expected), "{problem}");
    }
}

proptest! {
    #[test]
    fn what_is_printed_is_read_again_as_it_was(text in r#"([a-c]|\.|"|\\|\{|\}| |#|,|\n|\(|\)|import ){0,60}"#) {
        if let Ok(file) = read(&text) {
            let printed = file.to_string();
            let again = read(&printed);
            prop_assert_eq!(again.as_ref(), Ok(&file), "{}", printed);
            prop_assert_eq!(again.unwrap().to_string(), printed);
        }
    }

    #[test]
    fn any_text_is_a_file_or_a_problem(text in ".{0,120}") {
        let _ = read(&text);
        let _ = zones(&text);
    }
}

#[test]
fn what_is_imported_is_given_words() {
    let text = "(up) {
 forward {args[0]} {args[1]} {
  policy {args.2}
 }
 hosts {
  192.0.2.1 \"x{args[1]}y\"
 }
}
a {
 import up . 192.0.2.1 random
}
b {
 import up b 192.0.2.2 sequential
}";
    let expected = "a {
 forward . 192.0.2.1 {
  policy random
 }
 hosts {
  192.0.2.1 x192.0.2.1y
 }
}
b {
 forward b 192.0.2.2 {
  policy sequential
 }
 hosts {
  192.0.2.1 x192.0.2.2y
 }
}";
    assert_eq!(parse("Corefile", text, &Disk).unwrap(), parse("Corefile", expected, &Disk).unwrap());
    let missing = parse("Corefile", "(s) {\n errors {args[1]}\n}\n. {\n import s one\n}", &Disk).unwrap_err();
    assert_eq!(
        missing.to_string(),
        "Corefile:2:9: \"{args[1]}\": the import gives 1 argument, which are counted from 0"
    );
}
