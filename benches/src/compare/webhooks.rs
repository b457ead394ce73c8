//! B9: the durable outbox's webhooks beside a bare loop of signed POSTs to the same receiver.

use super::instance::{SECRET, webhook_sink};
use super::receiver::{Answer, Receiver};
use super::report::Goal;
use super::restart::Crowd;
use crate::ratio::median;
use anyhow::{Context, Result, ensure};
use bitcoin::hashes::{Hash, HashEngine, Hmac, HmacEngine, sha256};
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const ROUNDS: usize = 3;
/// A rate is counted over so long, or until the outbox is empty.
const WINDOW: Duration = Duration::from_millis(1_500);
const LIMIT: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(1);
const CONCURRENCY: [usize; 3] = [1, 16, 128];
const DELAYS_MS: [u64; 2] = [0, 50];

/// Each pair of concurrency and delay, and what a dead endpoint beside costs.
pub fn webhooks(confirmd: &Path, crowd: &Crowd) -> Result<Goal> {
    let mut goal = Goal::new("B9");
    let mut body = None;
    for delay_ms in DELAYS_MS {
        for concurrency in CONCURRENCY {
            let delay = Duration::from_millis(delay_ms);
            let (mut ours, mut bare) = (Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                let receiver = Receiver::start(Answer::After(delay), false)?;
                ours.push(drain(confirmd, crowd, &receiver, &webhook_sink("hook", receiver.port, concurrency))?);
                let body: &Vec<u8> = body.get_or_insert_with(|| receiver.sample());
                let receiver = Receiver::start(Answer::After(delay), false)?;
                bare.push(bare_loop(&receiver, body, concurrency)?);
            }
            let (ours, bare) = (median(ours), median(bare));
            println!("B9 {concurrency} at a time, receiver takes {delay_ms} ms: {ours} a second, bare loop {bare}");
            let what = format!("{concurrency} at a time, {delay_ms} ms, against the bare loop");
            goal = match concurrency {
                16 => goal.at_least_ratio(&what, ours, bare, 40),
                _ => goal.note(format!("{what} {}%", ours * 100 / bare.max(1))),
            };
        }
    }
    dead_endpoint(confirmd, crowd, goal)
}

/// Webhooks a second that a consumer new to the state gets of what the state holds.
fn drain(confirmd: &Path, crowd: &Crowd, receiver: &Receiver, sinks: &str) -> Result<u64> {
    let (mut instance, _folder) = crowd.copied(confirmd, |_| Ok(sinks.to_owned()))?;
    let rate = rate(receiver, crowd.deposits, || instance.alive())?;
    instance.kill()?;
    Ok(rate)
}

/// From the first POST on.
fn rate(receiver: &Receiver, total: u64, mut alive: impl FnMut() -> Result<()>) -> Result<u64> {
    let start = Instant::now();
    while receiver.count() == 0 {
        alive()?;
        ensure!(start.elapsed() < LIMIT, "no webhook came within {} s", LIMIT.as_secs());
        std::thread::sleep(LOOK);
    }
    let (start, before) = (Instant::now(), receiver.count());
    while start.elapsed() < WINDOW && receiver.count() < total {
        std::thread::sleep(LOOK);
    }
    let us = u64::try_from(start.elapsed().as_micros())?;
    Ok((receiver.count() - before) * 1_000_000 / us.max(1))
}

/// Threads that post the same body over and over, signed anew each time; POSTs a second.
fn bare_loop(receiver: &Receiver, body: &[u8], concurrency: usize) -> Result<u64> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let posters: Vec<_> = (0..concurrency).map(|_| scope.spawn(|| post(receiver.port, body, &over))).collect();
        let rate = rate(receiver, u64::MAX, || Ok(()));
        over.store(true, Ordering::Relaxed);
        for poster in posters {
            poster.join().map_err(|_| anyhow::anyhow!("a poster panicked"))??;
        }
        rate
    })
}

fn post(port: u16, body: &[u8], over: &AtomicBool) -> Result<()> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    for number in 0u64.. {
        if over.load(Ordering::Relaxed) {
            break;
        }
        let mut engine = HmacEngine::<sha256::Hash>::new(SECRET.as_bytes());
        engine.input(format!("evt_{number}.1790000000.").as_bytes());
        engine.input(body);
        let signature = Hmac::<sha256::Hash>::from_engine(engine).to_byte_array();
        let hex: String = signature.iter().map(|byte| format!("{byte:02x}")).collect();
        let head = format!(
            "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nwebhook-id: evt_{number}\r\n\
             webhook-timestamp: 1790000000\r\nwebhook-signature: v1,{hex}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.get_mut().write_all(&[head.as_bytes(), body].concat())?;
        loop {
            line.clear();
            ensure!(stream.read_line(&mut line)? > 0, "the receiver has closed the connection");
            if line.trim_end().is_empty() {
                break;
            }
        }
    }
    Ok(())
}

/// The same consumer alone, beside one that refuses connections, and beside one that never answers.
fn dead_endpoint(confirmd: &Path, crowd: &Crowd, goal: Goal) -> Result<Goal> {
    let refusing = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("taking a port")?.local_addr()?.port();
    let silent = Receiver::start(Answer::Never, false)?;
    let (mut alone, mut beside_refusing, mut beside_silent) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        for (dead, into) in [(None, &mut alone), (Some(refusing), &mut beside_refusing), (Some(silent.port), &mut beside_silent)]
        {
            let receiver = Receiver::start(Answer::After(Duration::ZERO), false)?;
            let mut sinks = webhook_sink("hook", receiver.port, 16);
            if let Some(port) = dead {
                sinks.push_str(&webhook_sink("dead", port, 16));
            }
            into.push(drain(confirmd, crowd, &receiver, &sinks)?);
        }
    }
    let (alone, refusing, silent) = (median(alone), median(beside_refusing), median(beside_silent));
    println!("B9 alone {alone} a second; beside an endpoint that refuses {refusing}, beside one that never answers {silent}");
    Ok(goal.at_least_ratio("beside an endpoint that refuses, against alone", refusing, alone, 90).at_least_ratio(
        "beside one that never answers",
        silent,
        alone,
        90,
    ))
}
