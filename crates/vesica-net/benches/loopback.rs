//! What a link carries over loopback, both ends in one process: the price of TLS, framing and copies.
#![allow(missing_docs)]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::sync::Arc;
use vesica_net::{Endpoint, Identity, PeerLink, PeerSpec, Quiet, Security, Trust, connect};
use vesica_session::Channel;
use vesica_types::Party;

type Link = Box<dyn PeerLink>;

/// Bytes of a message, and messages of a round.
const MESSAGE: usize = 1 << 20;
const MESSAGES: usize = 64;

fn links(tls: bool) -> (Link, Link) {
    let ids = [Identity::generate("alice").unwrap(), Identity::generate("bob").unwrap()];
    let parties = [Party::new(0, "alice"), Party::new(1, "bob")];
    let endpoint = |me: usize, connect: Option<String>| {
        let security = if tls { Security::Tls { identity: ids[me].clone() } } else { Security::Insecure };
        let mut endpoint = Endpoint::new(parties[me].clone(), [0; 32], security);
        let trust = Some(Trust::Pinned(vec![ids[1 - me].fingerprint()]));
        endpoint.listen = Some("127.0.0.1:0".into());
        endpoint.peers.push(PeerSpec { party: parties[1 - me].clone(), connect, trust, road: Default::default() });
        endpoint
    };
    let bound = endpoint(0, None).bind().unwrap();
    let address = bound.address().unwrap().to_string();
    let waiting = std::thread::spawn(move || bound.meet(Arc::new(Quiet)).unwrap().remove(0));
    let there = connect(endpoint(1, Some(address)), Arc::new(Quiet)).unwrap().remove(0);
    (waiting.join().unwrap(), there)
}

fn stream(from: &mut dyn Channel, to: &mut dyn Channel, msg: &[u8]) {
    std::thread::scope(|scope| {
        scope.spawn(|| (0..MESSAGES).for_each(|_| from.send(msg).unwrap()));
        (0..MESSAGES).for_each(|_| drop(to.recv(MESSAGE).unwrap()));
    });
}

fn loopback(c: &mut Criterion) {
    let msg = vec![7u8; MESSAGE];
    for (name, tls) in [("tls", true), ("plaintext", false)] {
        let links = links(tls);
        let (mut a, mut b) = (links.0.line("x").unwrap(), links.1.line("x").unwrap());
        let (mut d, mut e) = (links.0.line("y").unwrap(), links.1.line("y").unwrap());
        let mut group = c.benchmark_group(name);
        group.sample_size(20);
        group.throughput(Throughput::Bytes((MESSAGE * MESSAGES) as u64));
        group.bench_function("one way", |bench| bench.iter(|| stream(&mut *a, &mut *b, &msg)));
        group.throughput(Throughput::Bytes((2 * MESSAGE * MESSAGES) as u64));
        group.bench_function("both ways at once", |bench| {
            bench.iter(|| {
                std::thread::scope(|scope| {
                    scope.spawn(|| stream(&mut *a, &mut *b, &msg));
                    stream(&mut *e, &mut *d, &msg);
                });
            });
        });
        group.throughput(Throughput::Elements(1));
        group.bench_function("round trip of 32 bytes", |bench| {
            std::thread::scope(|scope| {
                let echo = scope.spawn(|| {
                    loop {
                        let msg = b.recv(32).unwrap();
                        b.send(&msg).unwrap();
                        if msg.is_empty() {
                            return;
                        }
                    }
                });
                bench.iter(|| a.swap(&[1; 32], 32).unwrap());
                a.swap(&[], 32).unwrap();
                echo.join().unwrap();
            });
        });
        group.finish();
    }
}

criterion_group!(benches, loopback);
criterion_main!(benches);
