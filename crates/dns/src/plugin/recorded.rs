//! What CoreDNS 1.15 answered for the Corefile in `testdata/dns/plugins`, asked again: one block for each plugin; and for those in
//! `testdata/dns/outside`, over a cluster with load balancers and zones of a topology.

use super::kubernetes::tests::{data, index, lasting_of, lines, section};
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

#[test]
fn a_cluster_with_balancers_and_zones_is_answered_as_coredns_does() {
    let rows = lines("outside/answers.jsonl.gz");
    assert!(rows.len() > 17_000);
    let content = serde_json::from_str(&std::fs::read_to_string(data("outside/content.json")).unwrap()).unwrap();
    let mut wrong = Vec::new();
    for (corefile, ttl) in [("zonal", 5), ("disabled", 5), ("insecure", 5), ("external", 9), ("headless", 5)] {
        let text = std::fs::read_to_string(data(&format!("outside/{corefile}.Corefile"))).unwrap();
        let (_index, records) = index(&content, ttl);
        let (lasting, _cluster) = lasting_of(&text, &records);
        let asked = Asked::with(&text, &lasting);
        for row in rows.iter().filter(|row| row["corefile"] == corefile) {
            let (name, sort) = (row["name"].as_str().unwrap(), row["type"].as_str().unwrap());
            let reply = asked.answer(query_from("127.0.0.1:18091", name, rtype::number(sort).unwrap()));
            let message = reply.message().unwrap();
            let mut got = row["got"].clone();
            for part in ["answer", "authority", "additional"] {
                let records = got[part].as_array_mut().unwrap();
                records.sort_by_key(Value::to_string);
                // CoreDNS has the CNAME of a load balancer once for each port.
                records.dedup();
            }
            let ours = json!({
                "rcode": rcode::text(reply.rcode), "aa": reply.aa, "tc": reply.tc, "ra": reply.ra,
                "answer": section(message.answer()), "authority": section(message.authority()),
                "additional": section(message.additional()),
            });
            if ours != got {
                wrong.push(format!("{corefile} {name} {sort}\n  ours     {ours}\n  recorded {got}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} differences\n{}", wrong.len(), wrong.join("\n"));
}
