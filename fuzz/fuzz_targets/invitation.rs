//! A stranger's invitation, the reply to it, and the documents that are written of both.
#![no_main]

use std::path::Path;
use vesica_spec::{Document, Invitation, OwnTable, Proposal, Reply, document, plan, service};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let (letter, line) = text.split_once('\0').unwrap_or((text, ""));
    let Ok(invitation) = Invitation::parse(letter) else { return };
    // What is written again says the same.
    let again = Invitation::parse(&invitation.text()).expect("what was written by ourselves");
    assert_eq!(again.text(), invitation.text());
    drop(invitation.reply(line));
    // The same line under a right check, which no fuzzer guesses.
    let reply = Reply { fingerprint: invitation.head.fingerprint.parse().expect("it was read"), number: line.to_owned() };
    let Ok(read) = invitation.reply(&invitation.reply_line(&reply)) else { return };
    assert_eq!(read, reply);
    let keys = ["id".to_owned()];
    let table = OwnTable { path: Path::new("table.csv"), keys: &keys, value: None };
    let invited = document(&invitation.invited_document(&read, table), false).expect("a document");
    match (invited, &invitation.proposal) {
        (Document::Job(spec), Proposal::Match(_)) => {
            assert_eq!(spec.mine.name, invitation.head.to);
            drop(plan(&spec));
            let job = invitation.inviting_job("0.0.0.0:5300", table).expect("a job");
            let job = invitation.confirmed(&job, &read).expect("a job that waits for this reply");
            let job = vesica_spec::parse(&job).expect("a job");
            assert_eq!(job.mine.name, invitation.head.from);
            drop(plan(&job));
        }
        (Document::Client(spec), Proposal::Ask(..)) => drop(service::plan_ask(&spec)),
        (document, proposal) => panic!("{proposal:?} became {document:?}"),
    }
});
