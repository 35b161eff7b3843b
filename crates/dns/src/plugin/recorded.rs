//! What CoreDNS 1.15 answered for the Corefile in `testdata/dns/plugins`, asked again: one block for each plugin.

use super::kubernetes::tests::{data, lines, section};
use crate::{
    testing::{Asked, query_from},
    wire::code::{rcode, rtype},
};
use serde_json::{Value, json};

#[test]
fn plugins_answer_as_those_of_coredns_do() {
    let asked = Asked::new(&std::fs::read_to_string(data("plugins/plugins.Corefile")).unwrap());
    let rows = lines("plugins/answers.jsonl.gz");
    assert!(rows.len() > 600);
    let mut wrong = Vec::new();
    for row in rows {
        let (name, sort, client) = (row["name"].as_str().unwrap(), row["type"].as_str().unwrap(), &row["from"]);
        // The port from which the questions of the recording came.
        let client = if client == "::1" { "[::1]:18091" } else { "127.0.0.1:18091" };
        let reply = asked.answer(query_from(client, name, rtype::number(sort).unwrap()));
        let message = reply.message().unwrap();
        let mut got = row["got"].clone();
        for part in ["answer", "authority", "additional"] {
            got[part].as_array_mut().unwrap().sort_by_key(Value::to_string);
        }
        let ours = json!({
            "rcode": rcode::text(reply.rcode), "aa": reply.aa, "tc": reply.tc, "ra": reply.ra, "rd": got["rd"],
            "answer": section(message.answer()), "authority": section(message.authority()),
            "additional": section(message.additional()),
        });
        if ours != got {
            wrong.push(format!("{client} {name} {sort}\n  ours     {ours}\n  recorded {got}"));
        }
    }
    assert!(wrong.is_empty(), "{} differences\n{}", wrong.len(), wrong.join("\n"));
}
