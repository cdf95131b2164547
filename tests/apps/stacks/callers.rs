//! The same as callers.c in Rust, on the first thread.
//!
//! usage: callers PORT

use std::backtrace::Backtrace;
use std::fs::OpenOptions;
use std::hint::black_box;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

/// Writes the stack of the caller, innermost first.
#[inline(never)]
fn write_truth(path: &str) {
    let all = Backtrace::force_capture().to_string();
    let is_number = |text: &str| text.trim().parse::<u32>().is_ok();
    let named = |line: &str| line.split_once(": ").filter(|line| is_number(line.0)).map(|line| line.1.to_string());
    let names: Vec<String> = all.lines().filter_map(named).collect();
    let own = names.iter().position(|name| name.ends_with("write_truth")).map_or(0, |at| at + 1);
    let names: Vec<String> = names[own..].iter().map(|name| format!("{name:?}")).collect();
    let file = std::env::args().next().unwrap() + ".truth";
    let mut file = OpenOptions::new().append(true).create(true).open(file).unwrap();
    writeln!(file, "[{path:?}, [{}]]", names.join(", ")).unwrap();
}

#[inline(never)]
fn sleep_work(path: &str, ms: u64) -> u64 {
    write_truth(path);
    std::thread::sleep(Duration::from_millis(ms));
    black_box(ms)
}

#[inline(never)]
fn spin_work(ms: u64) -> u64 {
    let since = Instant::now();
    let mut n = 0;
    while since.elapsed() < Duration::from_millis(ms) {
        n = black_box(n + 1);
    }
    n
}

#[inline(never)]
fn deep(levels: u32, path: &str, ms: u64) -> u64 {
    black_box(if levels == 0 { sleep_work(path, ms) } else { deep(levels - 1, path, ms) }) + 1
}

trait Work {
    fn work(&self, path: &str, ms: u64) -> u64;
}

struct Shop;

impl Work for Shop {
    #[inline(never)]
    fn work(&self, path: &str, ms: u64) -> u64 {
        black_box(sleep_work(path, ms)) + 1
    }
}

#[inline(never)]
fn called(path: &str, ms: u64) -> u64 {
    let shop: Box<dyn Work> = black_box(Box::new(Shop));
    // A closure within an iterator of the standard library.
    let sum = (0..black_box(1_u64)).map(|n| n + shop.work(path, ms)).sum::<u64>();
    black_box(sum)
}

#[inline(never)]
fn price(what: &str, path: &str, ms: u64) -> u64 {
    black_box(match what {
        "sleep" => sleep_work(path, ms),
        "spin" => spin_work(ms),
        "deep" => deep(40, path, ms),
        "called" => called(path, ms),
        _ => 0,
    })
}

#[inline(never)]
fn checkout(path: &str) -> u64 {
    let mut parts = path.trim_start_matches('/').split('/');
    let (what, ms) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
    black_box(price(what, path, ms.parse().unwrap_or(0)))
}

fn main() {
    let port: u16 = std::env::args().nth(1).unwrap().parse().unwrap();
    for stream in TcpListener::bind(("127.0.0.1", port)).unwrap().incoming() {
        let mut stream = stream.unwrap();
        let mut text = [0; 1024];
        while let Ok(length @ 1..) = stream.read(&mut text) {
            let text = String::from_utf8_lossy(&text[..length]).into_owned();
            black_box(checkout(text.split(' ').nth(1).unwrap_or("/")));
            if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").is_err() {
                break;
            }
        }
    }
}
