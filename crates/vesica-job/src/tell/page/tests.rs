use super::*;
use crate::tell::report::{Chosen, Host, JobId, Outcome, Revealed, RuledRows, StepCost, TotalCost, Written};

/// A report in which every number is another one, so that a number on a page says where it is from.
fn report(party: &str) -> Report {
    let step = |phase: &str, step: &str, began_s, wall_s, waited_s, sent, received| StepCost {
        phase: phase.into(),
        step: step.into(),
        began_s,
        wall_s,
        waited_s,
        sent,
        received,
        ..StepCost::default()
    };
    let peer = if party == "alice" { "bob" } else { "alice" };
    Report {
        job: JobId {
            id: "campaign".into(),
            run: Some("0123456789abcdef".into()),
            called: Some("7f3a-91c4-02be".into()),
            shared_hash: "abcdabcdabcdabcdabcd".into(),
            party: party.into(),
            parties: vec!["alice".into(), "bob".into()],
            shared: "[shared]\nid = \"campaign\"\n".into(),
            mine: "[mine]\nname = \"alice\"\ninput = { path = \"/home/alice/private.csv\", keys = [\"id\"] }\n".into(),
        },
        outcome: Outcome {
            rows: 1_111,
            keys: 1_022,
            empty: 3_303,
            duplicates: 8_856,
            ruled: Some(RuledRows { changed: 444, emptied: 12 }),
            matched: Some(505),
            sum: None,
            groups: None,
            matched_rows: Some(567),
            output: Some(Written { path: "alice.matched.csv".into(), rows: 567, bytes: 8_192 }),
            attempt: None,
            left_out: Vec::new(),
            changes: None,
        },
        revealed: vec![
            Revealed {
                name: "intersection".into(),
                to: vec!["alice".into()],
                what: "which of their own keys every other party holds too".into(),
            },
            Revealed { name: "key_count".into(), to: vec!["alice".into(), "bob".into()], what: "how many".into() },
        ],
        chosen: Chosen {
            protocol: "rr22".into(),
            curve: None,
            security: "semi-honest".into(),
            join: "inner".into(),
            rules: vec![vec!["trim-1".into()]],
            parameters: vec!["okvs-3-2026".into()],
            expects: Vec::new(),
            wire_version: 4,
            cut: "units".into(),
            units: 1,
            in_flight: 2,
            lanes: 0,
            unit_capacity: 1_234,
            tag_bytes: 9,
            cpu: "avx512".into(),
            tls: "TLS 1.3".into(),
            peers: vec![PeerId {
                name: peer.into(),
                fingerprint: Some("sha256:feed".into()),
                keys: 2_048,
                unit_capacity: 1_300,
                attempts: 1,
                answered: 1_300,
                version: "0.1.0".into(),
            }],
        },
        cost: vec![
            step("read", "read", Some(0.0), 0.25, 0.0, 0, 0),
            step("connect", "connect", Some(0.25), 0.75, 0.75, 0, 0),
            step("match", "match", Some(1.0), 2.0, 1.0, 70_600, 90_600),
            step("match", "encode", None, 1.5, 0.5, 70_000, 90_000),
            step("agree", "agree", Some(1.0), 0.0, 0.0, 300, 200),
        ],
        total: TotalCost {
            wall_s: 3.0,
            waited_s: 0.75,
            cpu_s: 4.5,
            sent: 71_000,
            received: 91_000,
            peak_memory: 99 << 20,
        },
        host: Host {
            version: "0.1.0".into(),
            os: "linux x86_64".into(),
            cores: 2,
            cpu_available: vec!["avx512".into()],
        },
    }
}

#[test]
fn the_page_says_what_happened_in_html_and_in_markdown_alike() {
    let mut report = report("alice");
    report.outcome.attempt = Some("77ab77ab".into());
    let page = Page::of(&report, None, Audience::Own).unwrap();
    for text in [page.html(), page.markdown()] {
        for said in [
            "567 of your 1,111 rows (51.0 %)",
            "alice holds 1,022 keys; bob holds 2,048 keys; 505 are common",
            "every other party holds too",
            "3.0 s by the clock, of which 750 ms until everybody had come",
            "2.000 s, 1.000 s of it waiting",
            "bob has a report of its own",
            "match: encode",
            "68.4 KiB sent, 87.9 KiB received",
            "300 B sent, 200 B received",
            "the rest",
            "700 B sent, 800 B received",
            "3,303",
            "444",
            "sha256:feed",
            "okvs-3-2026",
            "abcdabcdabcdabcd…",
            "…/private.csv",
            "alice.matched.csv",
            "77ab77ab",
        ] {
            assert!(text.contains(said), "{said} is not on the page:\n{text}");
        }
        // It was written by an earlier version.
        assert!(!text.contains("/home/alice"), "{text}");
    }
}

#[test]
fn a_page_for_the_peer_says_nothing_that_the_run_did_not_tell_it() {
    let report = report("alice");
    let page = Page::of(&report, None, Audience::Peer("bob")).unwrap();
    for text in [page.html(), page.markdown()] {
        for hidden in [
            "1,111",
            "505",
            "567",
            "3,303",
            "8,856",
            "444",
            "51.0",
            "private.csv",
            "matched.csv",
            "avx512",
            "2.000 s",
            "4.5 s",
            "99.0 MiB",
        ] {
            assert!(!text.contains(hidden), "{hidden} is on the page for bob:\n{text}");
        }
        assert!(text.contains("1,022") && text.contains("2,048"), "both were told how many keys there are:\n{text}");
    }
    // Whether the output has as many rows as were matched is alice's own too, and says nothing of a join that holds the others.
    let mut even = report.clone();
    (even.outcome.matched_rows, even.outcome.output.as_mut().unwrap().rows) = (Some(7), 7);
    let says = |report: &Report, audience| {
        Page::of(report, None, audience).unwrap().markdown().contains("as many rows as were matched")
    };
    assert!(says(&even, Audience::Own) && !says(&even, Audience::Peer("bob")));
    even.chosen.join = "anti".into();
    assert!(!says(&even, Audience::Own));
    let mut both = report;
    both.revealed[0].to.push("bob".into());
    let shown = Page::of(&both, None, Audience::Peer("bob")).unwrap().html();
    assert!(shown.contains("505") && !shown.contains("567"), "bob learned how many keys, not alice's rows:\n{shown}");
}

#[test]
fn a_name_is_never_markup() {
    let mut report = report("alice");
    report.job.id = "<script>alert(1)</script>".into();
    report.chosen.peers[0].name = "b\"o'b|<img src=x>".into();
    let page = Page::of(&report, None, Audience::Own).unwrap();
    let (html, markdown) = (page.html(), page.markdown());
    assert!(!html.contains("<script") && !html.contains("<img"), "{html}");
    assert!(html.contains("default-src 'none'"));
    let bare = markdown.char_indices().filter(|&(at, c)| c == '<' && !markdown[..at].ends_with('\\')).count();
    assert_eq!(bare, 0, "{markdown}");
}

#[test]
fn both_parties_phases_stand_on_one_clock() {
    let (alice, mut bob) = (report("alice"), report("bob"));
    // Bob started 0.5 s later, and so waited less.
    bob.cost[1].wall_s = 0.25;
    bob.cost[1].waited_s = 0.25;
    bob.cost[2].began_s = Some(0.5);
    let html = Page::of(&alice, Some(&bob), Audience::Own).unwrap().html();
    let at = |name: &str| {
        let line = html.lines().find(|line| line.contains(&format!(">{name}<"))).unwrap_or_else(|| panic!("no {name}"));
        line.split("left:").nth(1).unwrap().split('%').next().unwrap().parse::<f64>().unwrap()
    };
    assert_eq!(at("match, alice"), at("match, bob"), "the match begins when both have come");
    assert!(at("read, bob") > at("read, alice") + 15.0, "bob started later");
}

/// The lines of one phase add up to it, and all lines to the totals; but where a connection was made again, the totals are of the last one.
#[test]
fn a_phase_is_listed_once_and_a_broken_connection_is_told() {
    let mut report = report("alice");
    let text = Page::own(&report).markdown();
    assert!(!text.contains("68.9 KiB"), "the match is listed by its step, and by nothing else:\n{text}");
    let again = |report: &mut Report, phase: &str| {
        let begun = report.cost.iter().find(|one| one.phase == phase && one.began_s.is_some()).cloned();
        report.cost.push(begun.expect("the phase is there"));
        Page::own(report).markdown()
    };
    let checked = again(&mut report, "connect");
    assert!(
        checked.contains("the rest") && !checked.contains("a connection broke"),
        "a check breaks nothing: {checked}"
    );
    // It broke before the units were matched.
    let broken = again(&mut report, "agree");
    assert!(!broken.contains("the rest") && broken.contains("a connection broke"), "{broken}");
    // A report that tells no phases apart, as that of a service's client.
    report.cost.iter_mut().for_each(|one| (one.sent, one.received) = (0, 0));
    assert!(!Page::own(&report).html().contains(">sent<"));
}

#[test]
fn waiting_is_divided_by_the_units_that_waited_at_once() {
    let said = |units, in_flight, cut: &str| {
        let mut report = report("alice");
        (report.chosen.units, report.chosen.in_flight, report.chosen.cut) = (units, in_flight, cut.into());
        Page::own(&report).markdown()
    };
    for (units, in_flight, cut, waited, together) in [
        (1, 4, "units", "1.000 s", None),
        (2, 4, "units", "0.500 s", Some("up to 2 units")),
        (9, 4, "shares", "0.250 s", Some("up to 4 units")),
        (9, 4, "whole", "1.000 s", None),
    ] {
        let text = said(units, in_flight, cut);
        assert!(text.contains(&format!("2.000 s, {waited} of it waiting")), "{units} {in_flight} {cut}:\n{text}");
        assert_eq!(text.contains("were under way at once"), together.is_some(), "{text}");
        assert!(together.is_none_or(|words| text.contains(words)), "{text}");
    }
}

#[test]
fn a_service_has_no_report_to_be_put_beside_its_clients() {
    let mut report = report("alice");
    (report.job.shared, report.job.mine) = (String::new(), String::new());
    assert!(!Page::own(&report).html().contains("report of its own"));
}

/// bob waits for 98 s until alice comes, and all phases together take 2.5 s.
#[test]
fn a_wait_that_would_hide_the_phases_is_cut_and_says_how_long_it_was() {
    let (alice, mut bob) = (report("alice"), report("bob"));
    (bob.cost[1].wall_s, bob.cost[1].waited_s, bob.cost[2].began_s) = (99.0, 99.0, Some(99.25));
    let page = Page::of(&alice, Some(&bob), Audience::Own).unwrap();
    let html = page.html();
    let line = |name: &str| html.lines().find(|line| line.contains(&format!(">{name}<"))).unwrap();
    assert!(line("connect, bob").contains("99.000 s of it waiting") && line("connect, bob").contains(">98 s</i>"));
    assert_eq!(html.matches("class=\"part2\"").count(), 1, "the wait of alice is short: {html}");
    assert!(html.contains("waiting that is cut short here"));
    let wide = |name: &str| {
        let widths = line(name).split("width:").skip(1).map(|rest| rest.split('%').next().unwrap());
        widths.map(|wide| wide.parse::<f64>().unwrap()).sum::<f64>()
    };
    assert!(wide("match, bob") > 50.0, "{html}");
    assert!(!page.markdown().contains("cut short"), "a table has no width to save");

    bob.cost[1].wall_s = 0.75;
    bob.cost[2].began_s = Some(1.0);
    let html = Page::of(&alice, Some(&bob), Audience::Own).unwrap().html();
    assert!(!html.contains("part2\"") && !html.contains("cut short"), "{html}");
}

#[test]
fn the_name_of_a_reports_file_says_what_it_holds() {
    let report = report("alice");
    for (name, file, begins) in [
        ("a.html", ReportFile::Html, "<!doctype html>"),
        ("A.HTML", ReportFile::Html, "<!doctype html>"),
        ("a.b.md", ReportFile::Markdown, "# campaign, as alice saw it"),
        ("a.json", ReportFile::Json, "{"),
        ("html", ReportFile::Json, "{"),
    ] {
        let named = ReportFile::named(Path::new(name));
        assert_eq!(named, file, "{name}");
        assert!(named.text(&report).starts_with(begins), "{name}");
    }
}

#[test]
fn reports_that_do_not_belong_together_are_refused() {
    let (alice, mut bob) = (report("alice"), report("bob"));
    let refused = |other: &Report, audience| Page::of(&alice, Some(other), audience).err().unwrap();
    assert!(refused(&alice, Audience::Own).contains("both reports are of alice"));
    assert!(refused(&bob, Audience::Peer("bob")).contains("alice alone may show"));
    bob.job.called = Some("0000-0000-0000".into());
    assert!(refused(&bob, Audience::Own).contains("call the one 7f3a-91c4-02be, and the other 0000-0000-0000"));
    bob.job.shared_hash = "ff".into();
    assert!(refused(&bob, Audience::Own).contains("different jobs"));
    assert!(Page::of(&alice, None, Audience::Peer("carol")).err().unwrap().contains("the others are: bob"));
}

#[test]
fn three_parties_have_bars_and_a_side_that_did_not_learn_has_a_question_mark() {
    let mut report = report("alice");
    report.outcome.matched = None;
    let html = Page::of(&report, None, Audience::Own).unwrap().html();
    assert!(html.contains(">?</text>"), "{html}");
    report.chosen.peers.push(PeerId { name: "carol".into(), ..report.chosen.peers[0].clone() });
    let html = Page::of(&report, None, Audience::Own).unwrap().html();
    assert!(!html.contains("<circle") && html.contains(">carol<"), "{html}");
    assert!(html.contains("<span class=\"chip part1\"></span>the party&#39;s keys<"), "{html}");
    report.outcome.matched = Some(7);
    let html = Page::of(&report, None, Audience::Own).unwrap().html();
    for part in [
        "<span class=\"chip part0\"></span>common to all<",
        "<span class=\"chip part1\"></span>the party&#39;s other keys<",
    ] {
        assert!(html.contains(part), "{html}");
    }
}
