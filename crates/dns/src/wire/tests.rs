//! Names, requests and replies: tables, and any bytes at all.

use super::{
    code::{class, rcode, rtype},
    *,
};
use proptest::prelude::*;

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

fn request(text: &str, rtype: u16, edns: Option<Edns>) -> Request {
    Request { id: 7, rd: true, ad: false, cd: false, name: name(text), rtype, class: class::IN, edns }
}

const EDNS: Edns = Edns { size: 1232, dnssec_ok: false, version: 0, nsid: false, cookie: None };
const WIDE: Limits<'_> = Limits { size: 65_535, nsid: None, cookie: None };

fn reply(request: &Request) -> Reply {
    let mut reply = Reply::new();
    reply.reset(&request.name, request.rtype, request.class);
    reply
}

#[test]
fn names_are_read_and_written_with_their_escapes() {
    for (text, shown) in [
        (".", "."),
        ("", "."),
        ("example.org", "example.org."),
        ("Example.ORG.", "Example.ORG."),
        (r"a\.b.c.", r"a\.b.c."),
        (r"\097.", "a."),
        (r"\000.x.", r"\000.x."),
        ("*.a.", "*.a."),
        ("_http._tcp.x.", "_http._tcp.x."),
    ] {
        assert_eq!(name(text).to_string(), shown, "{text}");
        assert_eq!(name(shown), name(text));
    }
    let label = "a".repeat(63);
    let longest = format!("{label}.{label}.{label}.{}.", "a".repeat(61));
    assert_eq!(name(&longest).wire().len(), 255);
    for (text, problem) in [
        ("a..b".to_owned(), NameError::EmptyLabel),
        (".a".to_owned(), NameError::EmptyLabel),
        ("a".repeat(64), NameError::LongLabel),
        (format!("a{longest}"), NameError::LongLabel),
        (format!("a.{longest}"), NameError::TooLong),
        (r"a\".to_owned(), NameError::Escape),
        (r"a\25".to_owned(), NameError::Escape),
        (r"a\256".to_owned(), NameError::Escape),
    ] {
        assert_eq!(Name::parse(&text), Err(problem), "{text}");
    }
}

#[test]
fn a_name_is_within_a_zone_only_at_a_label() {
    for (inner, zone, expected) in [
        ("a.example.org.", "example.org.", true),
        ("example.org.", "EXAMPLE.org.", true),
        ("xexample.org.", "example.org.", false),
        ("org.", "example.org.", false),
        ("a.", ".", true),
        (".", ".", true),
        // The bytes of the zone are inside the label.
        ("a\\003org.", "org.", false),
    ] {
        assert_eq!(name(inner).is_within(&name(zone)), expected, "{inner} {zone}");
    }
    assert_eq!(name("a.b.c.").above(&name("c.")), Some(&b"\x01a\x01b"[..]));
}

#[test]
fn reverse_names_and_addresses_say_the_same() {
    for text in ["10.1.2.3", "::", "2001:db8::1", "fd00:10:96::a", "255.255.255.255"] {
        let address = text.parse().unwrap();
        assert_eq!(from_reverse(&record::reverse(address).unwrap()), Some(address));
    }
    for text in ["1.2.3.in-addr.arpa.", "1.2.3.256.in-addr.arpa.", "01.2.3.4.in-addr.arpa.", "x.ip6.arpa.", "a.b."] {
        assert_eq!(from_reverse(&name(text)), None, "{text}");
    }
}

#[test]
fn what_is_no_proper_request_is_refused_as_the_rfcs_say() {
    let good = request("example.org", rtype::A, Some(EDNS)).to_wire(7);
    assert_eq!(Request::parse(&good).unwrap().edns, Some(EDNS));
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut packet = good.clone();
        change(&mut packet);
        Request::parse(&packet).map(|_| ())
    };
    let refused = |code| Err(Reject::Answer(code));
    for (what, change, expected) in [
        ("as it is", &(|_: &mut Vec<u8>| {}) as &dyn Fn(&mut Vec<u8>), Ok(())),
        ("too short", &|p| p.truncate(11), Err(Reject::Ignore)),
        ("a response", &|p| p[2] |= 0x80, Err(Reject::Ignore)),
        ("NOTIFY", &|p| p[2] |= 4 << 3, refused(rcode::NOTIMP)),
        ("UPDATE", &|p| p[2] |= 5 << 3, refused(rcode::NOTIMP)),
        ("no question", &|p| p[5] = 0, refused(rcode::FORMERR)),
        ("two questions", &|p| p[5] = 2, refused(rcode::FORMERR)),
        ("many records", &|p| p[11] = 3, refused(rcode::FORMERR)),
        ("cut in the question", &|p| p.truncate(20), refused(rcode::FORMERR)),
        ("cut in OPT", &|p| p.truncate(p.len() - 1), refused(rcode::FORMERR)),
        ("pointer to itself", &|p| p.splice(12..14, [0xc0, 12]).for_each(drop), refused(rcode::FORMERR)),
        ("pointer ahead", &|p| p.splice(12..14, [0xc0, 40]).for_each(drop), refused(rcode::FORMERR)),
        ("label of an unknown kind", &|p| p[12] = 0x47, refused(rcode::FORMERR)),
        ("trailing bytes", &|p| p.push(9), Ok(())),
        (
            "two OPT records",
            &|p| {
                let opt = p[p.len() - 11..].to_vec();
                p.extend(opt);
                p[11] = 2;
            },
            refused(rcode::FORMERR),
        ),
        (
            "a cookie of nine bytes",
            &|p| {
                let end = p.len();
                p[end - 1] = 13;
                p.extend([0, 10, 0, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
            },
            refused(rcode::FORMERR),
        ),
    ] {
        assert_eq!(with(change), expected, "{what}");
    }
    assert_eq!(Reply::header_only(&good, rcode::NOTIMP), Some([0, 7, 0x81, 4, 0, 0, 0, 0, 0, 0, 0, 0]));
}

#[test]
fn the_size_asked_of_others_is_what_passes_every_network() {
    for (offered, asked) in [(0, 512), (512, 512), (1232, 1232), (1233, 1232), (4096, 1232), (65_535, 1232)] {
        let mut packet = request("example.org", rtype::A, Some(EDNS)).to_wire(7);
        let at = packet.len() - 8;
        packet[at..at + 2].copy_from_slice(&u16::to_be_bytes(offered));
        let forwarded = Request::parse(&packet).unwrap().to_wire(8);
        assert_eq!(Request::parse(&forwarded).unwrap().edns.map(|edns| edns.size), Some(asked), "{offered}");
    }
}

#[test]
fn the_case_of_the_question_is_kept_and_names_are_compressed() {
    let request = request("WwW.Example.org", rtype::A, None);
    let mut reply = reply(&request);
    reply.aa = true;
    reply.add_address(Section::Answer, &request.name, 5, "192.0.2.1".parse().unwrap());
    reply.add(Section::Authority, &"Example.org 5 IN NS ns.Example.org".parse().unwrap());
    reply.add(Section::Additional, &"ns.Example.org 5 IN AAAA 2001:db8::53".parse().unwrap());
    let packet = reply.finish(&request, &WIDE).to_vec();
    assert_eq!(packet.len(), 12 + 17 + 4 + 16 + (2 + 10 + 5) + (2 + 10 + 16));
    let message = Message::parse(&packet).unwrap();
    assert_eq!(message.question.0.to_string(), "WwW.Example.org.");
    assert_eq!(message.answer()[0].to_string(), "WwW.Example.org.\t5\tIN\tA\t192.0.2.1");
    assert_eq!(message.authority()[0].to_string(), "Example.org.\t5\tIN\tNS\tns.Example.org.");
    assert_eq!(message.additional()[0].to_string(), "ns.Example.org.\t5\tIN\tAAAA\t2001:db8::53");
    assert!(message.aa && message.response && !message.ra);
}

#[test]
fn what_does_not_fit_is_cut_between_records_and_said() {
    let request = request("many.test", rtype::A, Some(EDNS));
    let mut reply = reply(&request);
    for last in 0..100u8 {
        reply.add_address(Section::Answer, &request.name, 5, [10, 0, 0, last].into());
    }
    let packet = reply.finish(&request, &Limits { size: 512, ..WIDE }).to_vec();
    assert!(packet.len() <= 512 && packet.len() > 512 - 16);
    let message = Message::parse(&packet).unwrap();
    assert!(message.tc && message.edns);
    assert_eq!(message.answer().len(), (512 - 11 - 12 - 15) / 16);
}

#[test]
fn losing_only_additional_records_is_no_truncation() {
    let request = request("a.test", rtype::SRV, None);
    let mut reply = reply(&request);
    reply.add(Section::Answer, &"a.test 5 IN SRV 0 100 80 b.test".parse().unwrap());
    for last in 0..100u8 {
        reply.add_address(Section::Additional, &name("b.test"), 5, [10, 0, 0, last].into());
    }
    let message = Message::parse(reply.finish(&request, &Limits { size: 512, ..WIDE })).unwrap();
    assert!(!message.tc && message.answer().len() == 1 && message.additional().len() < 100);
}

#[test]
fn opt_carries_what_was_asked_for_and_nothing_else() {
    let edns = Edns { nsid: true, dnssec_ok: true, cookie: Some([1; 8]), ..EDNS };
    let request = request("a.test", rtype::A, Some(edns));
    let mut reply = reply(&request);
    reply.rcode = rcode::BADVERS;
    reply.extended = Some((17, "filtered".to_owned()));
    let packet = reply.finish(&request, &Limits { size: 1232, nsid: Some(b"me"), cookie: Some([2; 24]) }).to_vec();
    let message = Message::parse(&packet).unwrap();
    assert_eq!((message.rcode, message.edns), (rcode::BADVERS, true));
    let mut expected = vec![0, 0, 41, 4, 208, 1, 0, 128, 0, 0, 48, 0, 3, 0, 2, b'm', b'e', 0, 10, 0, 24];
    expected.extend([2; 24]);
    expected.extend([0, 15, 0, 10, 0, 17]);
    expected.extend(b"filtered");
    assert!(packet.ends_with(&expected), "{packet:?}");
}

#[test]
fn written_records_are_used_again_with_other_lifetimes() {
    let request = request("a.test", rtype::MX, None);
    let mut first = reply(&request);
    first.add(Section::Answer, &"a.test 300 IN MX 10 mail.a.test".parse().unwrap());
    first.add(Section::Additional, &"mail.a.test 200 IN A 192.0.2.1".parse().unwrap());
    let (records, counts, lifetimes) = (first.records().to_vec(), first.counts(), first.lifetimes());
    let mut second = reply(&request);
    second.add_written(counts, &records, &lifetimes, |ttl| ttl - 100);
    let message = Message::parse(second.finish(&request, &WIDE)).unwrap();
    assert_eq!(message.answer()[0].to_string(), "a.test.\t200\tIN\tMX\t10 mail.a.test.");
    assert_eq!(message.additional()[0].to_string(), "mail.a.test.\t100\tIN\tA\t192.0.2.1");
}

#[test]
fn adding_to_an_earlier_section_keeps_the_order() {
    let request = request("a.test", rtype::A, None);
    let mut reply = reply(&request);
    reply.add(Section::Additional, &"x.test 5 A 192.0.2.1".parse().unwrap());
    reply.add(Section::Answer, &"a.test 5 A 192.0.2.2".parse().unwrap());
    let message = Message::parse(reply.finish(&request, &WIDE)).unwrap();
    assert_eq!((message.answer().len(), message.additional().len()), (1, 1));
    assert_eq!(message.answer()[0].to_string(), "a.test.\t5\tIN\tA\t192.0.2.2");
}

#[test]
fn addresses_change_places_but_none_is_lost() {
    let request = request("a.test", rtype::AAAA, None);
    let mut reply = reply(&request);
    for last in 0..5u16 {
        reply.add_address(Section::Answer, &request.name, 5, [0xfd00, 0, 0, 0, 0, 0, 0, last].into());
    }
    assert!(reply.shuffle_addresses(|_| 0));
    let message = reply.message().unwrap();
    let mut shown: Vec<String> = message.answer().iter().map(Record::data_text).collect();
    assert_eq!(shown, ["fd00::1", "fd00::2", "fd00::3", "fd00::4", "fd00::"]);
    shown.sort();
    shown.dedup();
    assert_eq!(shown.len(), 5);
    reply.add(Section::Answer, &"b.test 5 A 192.0.2.2".parse().unwrap());
    assert!(!reply.shuffle_addresses(|_| 0));
}

#[test]
fn records_are_read_from_text_and_shown_as_text() {
    for (text, shown) in [
        ("a.test. 60 IN A 192.0.2.1", "a.test.\t60\tIN\tA\t192.0.2.1"),
        ("a.test IN 1h AAAA 2001:DB8::1", "a.test.\t3600\tIN\tAAAA\t2001:db8::1"),
        ("a.test A 192.0.2.1", "a.test.\t3600\tIN\tA\t192.0.2.1"),
        ("a.test 0 CH TXT \"a b\" c", "a.test.\t0\tCH\tTXT\t\"a b\" \"c\""),
        (r#"a.test 0 TXT "q\"uote" "\009""#, "a.test.\t0\tIN\tTXT\t\"q\\\"uote\" \"\\009\""),
        ("a 5 IN MX 10 mail.a", "a.\t5\tIN\tMX\t10 mail.a."),
        ("a 5 IN SRV 1 2 3 b", "a.\t5\tIN\tSRV\t1 2 3 b."),
        ("a 5 IN SOA ns.a h.a ( 1 2h 3 4 5 ) ; five", "a.\t5\tIN\tSOA\tns.a. h.a. 1 7200 3 4 5"),
        ("a 5 IN TYPE999 \\# 2 abCD", "a.\t5\tIN\tTYPE999\t\\# 2 abcd"),
        ("a 5 class513 A 192.0.2.1", "a.\t5\tCLASS513\tA\t192.0.2.1"),
        ("a 5 IN TXT \\# 0", "a.\t5\tIN\tTXT\t\\# 0"),
        ("a 5 IN HTTPS \\# 0", "a.\t5\tIN\tHTTPS\t\\# 0"),
        ("a 5 IN HINFO \"ANY obsoleted\" x", "a.\t5\tIN\tHINFO\t\"ANY obsoleted\" \"x\""),
    ] {
        let record: Record = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(record.to_string(), shown, "{text}");
        assert_eq!(shown.parse::<Record>(), Ok(record), "{text}");
    }
    for (text, problem) in [
        ("", "there is no record in an empty text"),
        ("a.test.", "\"a.test.\" is not followed by a TTL, a class or a type"),
        ("a.test. soon IN A 192.0.2.1", "\"soon\" is not a TTL, a class or a type"),
        ("a.test. 5 IN A 2001:db8::1", "\"2001:db8::1\" is no IPv4 address"),
        ("a.test. 5 IN AAAA 192.0.2.1", "\"192.0.2.1\" is no IPv6 address"),
        ("a.test. 5 IN A", "the data of A is not understood; it may be written as \\# LENGTH HEX"),
        ("a.test. 5 IN TXT \"open", "a quoted text does not end"),
        ("a.test. 5 IN TYPE9 \\# 3 abcd", "the bytes after \\# are not as many as its length says"),
        ("a.test. 99999999999h IN A 192.0.2.1", "\"99999999999h\" is not a TTL"),
        ("a..b 5 IN A 192.0.2.1", "name \"a..b\" has an empty label"),
    ] {
        assert_eq!(text.parse::<Record>().unwrap_err().to_string(), problem, "{text}");
    }
}

#[test]
fn data_that_no_record_can_hold_is_refused() {
    let long = |length: usize| format!("a 5 IN TXT {}", "x".repeat(length)).parse::<Record>();
    assert_eq!(long(60_000).map(|record| record.data.len()), Ok(60_236));
    assert_eq!(long(65_500).unwrap_err().to_string(), "the data is longer than 65535 bytes");
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_panic(packet in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = Request::parse(&packet);
        let _ = Message::parse(&packet);
    }

    #[test]
    fn any_bytes_behind_a_good_header_are_read_without_panic(
        counts in [0u8..3, 0..3, 0..3, 0..3],
        body in proptest::collection::vec(prop_oneof![Just(0u8), Just(0xc0), Just(12), 0u8..70, any::<u8>()], 0..200),
    ) {
        let mut packet = vec![0, 1, 1, 0, 0, counts[0], 0, counts[1], 0, counts[2], 0, counts[3]];
        packet.extend(body);
        if let Ok(request) = Request::parse(&packet) {
            prop_assert!(Request::parse(&request.to_wire(1)).is_ok());
        }
        if let Ok(message) = Message::parse(&packet) {
            // What is understood can be said again.
            let mut reply = Reply::new();
            reply.set_message(&message);
            let request = Request {
                id: 0, rd: false, ad: false, cd: false, name: message.question.0, rtype: message.question.1,
                class: message.question.2, edns: None,
            };
            let again = Message::parse(reply.finish(&request, &WIDE)).unwrap();
            prop_assert_eq!(again.sections, message.sections);
        }
    }

    #[test]
    fn names_survive_text_and_wire(labels in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..20), 0..8)) {
        let name = Name::under(labels.iter().map(Vec::as_slice), &Name::ROOT).unwrap();
        let (read, taken) = (Name::parse(&name.to_string()).unwrap(), Name::from_wire(name.wire()).unwrap());
        prop_assert_eq!(read.wire(), name.wire());
        prop_assert_eq!(taken.wire(), name.wire());
        prop_assert_eq!(name.label_count(), labels.len());
    }

    #[test]
    fn compressed_replies_are_read_back_as_they_were(
        question in "[a-c]{1,2}(\\.[a-c]{1,2}){0,3}",
        targets in proptest::collection::vec("[a-c]{1,2}(\\.[a-c]{1,2}){0,3}", 0..12),
    ) {
        let request = request(&question, rtype::NS, None);
        let mut reply = reply(&request);
        let records: Vec<Record> =
            targets.windows(2).map(|pair| Record::pointer(name(&pair[0]), rtype::NS, 5, &name(&pair[1]))).collect();
        records.iter().for_each(|record| reply.add(Section::Answer, record));
        let message = Message::parse(reply.finish(&request, &WIDE)).unwrap();
        prop_assert_eq!(message.answer(), records);
    }

    #[test]
    fn any_text_is_a_record_or_a_reason(text in ".{0,60}") {
        if let Ok(record) = text.parse::<Record>() {
            prop_assert_eq!(record.to_string().parse::<Record>().unwrap(), record);
        }
    }
}
