//! The texts and codes of the health endpoints, literally as the Kubernetes API server gives them.

use super::*;
use proptest::prelude::*;

fn health(store: Result<(), &'static str>) -> Health {
    let health = Health::new();
    health.add("store", Scope::Live, move || store.map_err(str::to_owned));
    health.add("informers", Scope::Ready, || Ok(()));
    health
}

fn get(health: &Health, url: &str) -> (u16, String) {
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    let answer = health.answer(path, query).unwrap();
    (answer.status, answer.body)
}

#[test]
fn a_healthy_process_says_ok_and_lists_its_checks_when_asked() {
    let health = health(Ok(()));
    for path in ["/healthz", "/livez", "/readyz", "/readyz/", "/readyz/store", "/livez/ping"] {
        assert_eq!(get(&health, path), (200, "ok".to_owned()), "{path}");
    }
    let readyz = "[+]ping ok\n[+]shutdown ok\n[+]store ok\n[+]informers ok\nreadyz check passed\n";
    assert_eq!(get(&health, "/readyz?verbose"), (200, readyz.to_owned()));
    assert_eq!(get(&health, "/readyz?verbose=1&a=b"), (200, readyz.to_owned()));
    assert_eq!(get(&health, "/livez?verbose"), (200, "[+]ping ok\n[+]store ok\nlivez check passed\n".to_owned()));
}

#[test]
fn what_came_of_checks_is_counted_when_they_are_asked_for() {
    let health = health(Err("disk full"));
    for url in ["/livez", "/livez?exclude=store", "/livez/store"] {
        get(&health, url);
    }
    let text = health.slis().render(crate::metrics::TextFormat::Classic).body;
    let mut lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    lines.sort_unstable();
    let expected = [
        r#"kubernetes_healthchecks_total{name="ping",status="success",type="livez"} 2"#,
        r#"kubernetes_healthchecks_total{name="store",status="error",type="livez"} 2"#,
        r#"kubernetes_healthcheck{name="ping",type="livez"} 1"#,
        r#"kubernetes_healthcheck{name="store",type="livez"} 0"#,
    ];
    assert_eq!(lines, expected);
    health.remove("store");
    assert!(!health.slis().render(crate::metrics::TextFormat::Classic).body.contains(expected[3]));
}

#[test]
fn a_failed_check_is_listed_without_its_reason() {
    let health = health(Err("disk full"));
    let body = "[+]ping ok\n[-]store failed: reason withheld\nhealthz check failed\n";
    assert_eq!(get(&health, "/healthz"), (500, body.to_owned()));
    assert_eq!(get(&health, "/healthz/store"), (500, "internal server error: disk full\n".to_owned()));
    assert_eq!(get(&health, "/healthz/ping").0, 200);
}

#[test]
fn excluded_checks_do_not_count_and_unknown_ones_are_named() {
    let health = health(Err("disk full"));
    assert_eq!(get(&health, "/livez?exclude=store"), (200, "ok".to_owned()));
    let body = "[+]ping excluded: ok\n[+]store excluded: ok\n\
        warn: some health checks cannot be excluded: no matches for \"a b\", \"informers\"\nlivez check passed\n";
    assert_eq!(
        get(&health, "/livez?verbose&exclude=store&exclude=ping&exclude=a%20b&exclude=informers"),
        (200, body.to_owned())
    );
}

#[test]
fn shutting_down_fails_readyz_alone() {
    let health = health(Ok(()));
    health.shut_down();
    assert_eq!(get(&health, "/livez").0, 200);
    assert_eq!(get(&health, "/healthz").0, 200);
    let body = "[+]ping ok\n[-]shutdown failed: reason withheld\n[+]store ok\n[+]informers ok\nreadyz check failed\n";
    assert_eq!(get(&health, "/readyz"), (500, body.to_owned()));
}

#[test]
fn checks_come_go_and_are_replaced_at_run_time() {
    let health = Health::new();
    assert_eq!(get(&health, "/readyz/late").0, 404);
    health.add("late", Scope::Ready, || Err("not yet".to_owned()));
    assert_eq!(get(&health, "/readyz").0, 500);
    health.add("late", Scope::Ready, || Ok(()));
    assert_eq!(get(&health, "/readyz/late").0, 200);
    assert_eq!(get(&health, "/livez/late").0, 404, "a readiness check is not part of livez");
    health.remove("late");
    assert_eq!(get(&health, "/readyz/late").0, 404);
}

#[test]
fn other_paths_are_left_to_others() {
    let health = Health::new();
    for path in ["", "/", "/healthzz", "/metrics", "healthz", "/api/healthz"] {
        assert_eq!(health.answer(path, ""), None, "{path}");
    }
}

proptest! {
    #[test]
    fn any_query_gets_an_answer(query in ".{0,60}") {
        prop_assert!(Health::new().answer("/readyz", &query).is_some());
    }
}
