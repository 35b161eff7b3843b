//! Seats and queues, step by step: who runs, who waits, who goes next.

use super::super::queues::{Arrival, Queues, Response, Ticket};

const QUEUE: Response = Response::Queue { queues: 64, hand: 4, length: 10 };

/// A hash that spreads small numbers.
fn flow(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn runs(arrival: Arrival) -> Ticket {
    match arrival {
        Arrival::Runs(ticket) => ticket,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_level_without_queues_turns_away_what_does_not_fit() {
    let mut level: Queues<u32> = Queues::new(2, Response::Reject, 0.0);
    let first = runs(level.arrive(0.0, 1, 1, || 0).0);
    runs(level.arrive(0.0, 1, 1, || 0).0);
    assert_eq!(level.arrive(0.0, 2, 1, || 0).0, Arrival::NoSeat);
    assert!(level.finish(1.0, first).is_empty());
    runs(level.arrive(1.0, 2, 1, || 0).0);
}

#[test]
fn who_waits_is_seated_when_somebody_ends() {
    let mut level = Queues::new(1, QUEUE, 0.0);
    let first = runs(level.arrive(0.0, flow(1), 1, || "first").0);
    assert!(matches!(level.arrive(0.0, flow(1), 1, || "second").0, Arrival::Waits(_)));
    let Arrival::Waits(third) = level.arrive(0.0, flow(2), 1, || "third").0 else { panic!("there is no seat") };
    assert_eq!(level.load(), (1, 2));
    assert!(level.leave(0.1, third), "it may give up");
    assert!(!level.leave(0.1, third), "once");
    let seated = level.finish(0.2, first);
    assert_eq!(seated.iter().map(|(who, _)| *who).collect::<Vec<_>>(), ["second"]);
    assert!(level.finish(0.3, seated[0].1).is_empty());
    assert_eq!(level.load(), (0, 0));
}

#[test]
fn a_full_hand_of_queues_turns_a_flow_away_and_leaves_room_for_others() {
    let mut level = Queues::new(1, QUEUE, 0.0);
    runs(level.arrive(0.0, flow(1), 1, || 0).0);
    let waiting = (0..100).filter(|_| matches!(level.arrive(0.0, flow(1), 1, || 1).0, Arrival::Waits(_))).count();
    assert_eq!(waiting, 40, "four queues of ten");
    assert_eq!(level.arrive(0.0, flow(1), 1, || 1).0, Arrival::QueueFull);
    for other in 2..50 {
        assert!(matches!(level.arrive(0.0, flow(other), 1, || 2).0, Arrival::Waits(_)), "flow {other}");
    }
}

#[test]
fn a_noisy_flow_and_a_quiet_one_take_turns() {
    let mut level = Queues::new(4, QUEUE, 0.0);
    let mut now = 0.0;
    let mut running: Vec<(&str, Ticket)> = Vec::new();
    for _ in 0..44 {
        if let Arrival::Runs(ticket) = level.arrive(now, flow(1), 1, || "noisy").0 {
            running.push(("noisy", ticket));
        }
    }
    // The noisy flow fills up whatever it empties; the quiet one sends four requests.
    for _ in 0..4 {
        assert!(matches!(level.arrive(now, flow(7), 1, || "quiet").0, Arrival::Waits(_)));
    }
    let mut ended = Vec::new();
    while ended.iter().filter(|who| **who == "quiet").count() < 4 {
        now += 0.01;
        let (who, ticket) = running.remove(0);
        ended.push(who);
        running.extend(level.finish(now, ticket));
        drop(level.arrive(now, flow(1), 1, || "noisy"));
        assert!(ended.len() < 30, "the quiet flow waits for ever: {ended:?}");
    }
}

#[test]
fn a_request_that_lasted_is_charged_for_it() {
    // Two flows, each with one queue; one of them takes a hundred times as long.
    let one_queue = Response::Queue { queues: 2, hand: 1, length: 1000 };
    let (slow, fast) = (0, 1);
    let mut level = Queues::new(1, one_queue, 0.0);
    let mut now = 0.0;
    let mut current = ("fast", runs(level.arrive(now, fast, 1, || "fast").0));
    for _ in 0..300 {
        drop(level.arrive(now, slow, 1, || "slow"));
        drop(level.arrive(now, fast, 1, || "fast"));
    }
    let (mut seconds, mut counts) = ([0.0, 0.0], [0, 0]);
    for _ in 0..200 {
        let (index, lasts) = if current.0 == "slow" { (0, 0.1) } else { (1, 0.001) };
        now += lasts;
        seconds[index] += lasts;
        counts[index] += 1;
        let mut seated = level.finish(now, current.1);
        let (who, ticket) = seated.remove(0);
        current = (who, ticket);
    }
    assert!(counts[1] > counts[0] * 10, "by time, not by number: {counts:?} {seconds:?}");
}

#[test]
fn a_wide_request_waits_for_its_seats_and_is_not_passed_by() {
    let mut level = Queues::new(4, QUEUE, 0.0);
    let narrow: Vec<Ticket> = (0..3).map(|_| runs(level.arrive(0.0, flow(1), 1, || "narrow").0)).collect();
    assert!(matches!(level.arrive(0.0, flow(2), 3, || "wide").0, Arrival::Waits(_)), "one seat is not three");
    assert!(matches!(level.arrive(1.0, flow(3), 1, || "late").0, Arrival::Waits(_)));
    assert!(level.finish(1.1, narrow[0]).is_empty());
    let seated = level.finish(1.2, narrow[1]);
    assert_eq!(seated.iter().map(|(who, ticket)| (*who, ticket.seats())).collect::<Vec<_>>(), [("wide", 3)]);
    // Who wants more than there is gets all there is.
    let mut small = Queues::new(2, QUEUE, 0.0);
    runs(small.arrive(0.0, flow(1), 9, || "all").0);
    assert!(matches!(small.arrive(0.0, flow(1), 1, || "next").0, Arrival::Waits(_)));
}

#[test]
fn a_new_configuration_keeps_who_waits() {
    let mut level = Queues::new(1, QUEUE, 0.0);
    let first = runs(level.arrive(0.0, flow(1), 1, || 0).0);
    for who in 1..=5 {
        drop(level.arrive(0.0, flow(who), 1, || who));
    }
    assert!(level.configure(0.1, 1, Response::Reject).is_empty());
    assert_eq!(level.arrive(0.1, flow(9), 1, || 9).0, Arrival::NoSeat);
    let seated = level.configure(0.2, 6, QUEUE);
    assert_eq!(seated.len(), 5, "there is room for all now");
    for ticket in seated.into_iter().map(|(_, ticket)| ticket).chain([first]) {
        assert!(level.finish(0.3, ticket).is_empty());
    }
    assert_eq!(level.load(), (0, 0));
    // Fewer queues: those beyond go when they are empty.
    drop(level.configure(0.4, 6, Response::Queue { queues: 2, hand: 1, length: 1 }));
    runs(level.arrive(0.5, flow(1), 1, || 0).0);
}

proptest::proptest! {
    #[test]
    fn nobody_is_lost_and_no_seat_is_given_twice(steps in proptest::collection::vec((0_u8..5, 0_u64..6, 1_u32..4), 1..300)) {
        let response = Response::Queue { queues: 8, hand: 2, length: 5 };
        let mut level: Queues<u64> = Queues::new(5, response, 0.0);
        let (mut now, mut running, mut waiting, mut id) = (0.0, Vec::new(), Vec::new(), 0);
        for (what, number, seats) in steps {
            now += 0.01;
            let seated = match what {
                0..=2 => {
                    id += 1;
                    let (arrival, seated) = level.arrive(now, flow(number), seats, || id);
                    match arrival {
                        Arrival::Runs(ticket) => running.push(ticket),
                        Arrival::Waits(position) => waiting.push((id, position)),
                        Arrival::QueueFull | Arrival::NoSeat => {}
                    }
                    seated
                }
                3 if !running.is_empty() => level.finish(now, running.remove(0)),
                _ if !waiting.is_empty() => {
                    let (_, position) = waiting.remove(0);
                    proptest::prop_assert!(level.leave(now, position));
                    Vec::new()
                }
                _ => Vec::new(),
            };
            for (who, ticket) in seated {
                waiting.retain(|(id, _)| *id != who);
                running.push(ticket);
            }
            let seats: u32 = running.iter().map(Ticket::seats).sum();
            proptest::prop_assert_eq!(level.load(), (seats, waiting.len()));
            proptest::prop_assert!(seats <= 5 || running.len() == 1);
        }
        while let Some(ticket) = running.pop() {
            for (who, ticket) in level.finish(now, ticket) {
                waiting.retain(|(id, _)| *id != who);
                running.push(ticket);
            }
        }
        // Whoever has not given up was seated in the end.
        proptest::prop_assert_eq!(level.load(), (0, waiting.len()));
        proptest::prop_assert!(waiting.is_empty());
    }
}
