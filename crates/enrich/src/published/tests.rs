//! Contexts as processes publish them, whole and damaged.

use super::*;
use std::cell::Cell;
use std::process::{Child, Command, Stdio};
use wirespan_model::process_context::{SIGNATURE, VERSION};

fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, bytes.len() as u8][..], bytes].concat()
}

fn attribute(key: &str, value: &str) -> Vec<u8> {
    field(1, &[field(1, key.as_bytes()), field(2, &field(1, value.as_bytes()))].concat())
}

fn payload(attributes: &[(&str, &str)]) -> Vec<u8> {
    field(1, &attributes.iter().flat_map(|(key, value)| attribute(key, value)).collect::<Vec<u8>>())
}

fn header(version: u32, length: usize, at_ns: u64) -> Vec<u8> {
    let numbers = [version.to_ne_bytes(), (length as u32).to_ne_bytes()].concat();
    [&SIGNATURE[..], &numbers, &at_ns.to_ne_bytes(), &PAYLOAD.to_ne_bytes()].concat()
}

/// Where the payload lies; the header is at 0.
const PAYLOAD: u64 = 0x1000;

/// Memory in which the header has this time, by the number of the read.
fn of(version: u32, payload: &[u8], length: usize, at_ns: &dyn Fn(u32) -> u64) -> Result<Published, Refused> {
    let reads = Cell::new(0);
    let read = |at: u64, into: &mut [u8]| {
        let header = header(version, length, at_ns(reads.get()));
        let from = if at == PAYLOAD { payload } else { &header };
        reads.set(reads.get() + u32::from(at == 0));
        into.copy_from_slice(from.get(..into.len())?);
        Some(())
    };
    read_at(&read, 0)
}

#[test]
fn attributes_that_name_the_service_are_kept() {
    let told = [("service.name", "shop"), ("service.instance.id", "i-1"), ("host.name", "h"), ("user", "x")];
    let bytes = payload(&told);
    let published = of(VERSION, &bytes, bytes.len(), &|_| 7).unwrap();
    let extra = vec![("service.instance.id".to_owned(), "i-1".to_owned())];
    assert_eq!(published, Published { at_ns: 7, service: Some("shop".into()), extra });
    let empty = of(VERSION, &[], 0, &|_| 7).unwrap();
    assert_eq!(empty, Published { at_ns: 7, ..Published::default() });
}

#[test]
fn a_context_that_changes_is_read_again_and_then_left() {
    let bytes = payload(&[("service.name", "shop")]);
    // The third and fourth reads of the header agree.
    assert_eq!(of(VERSION, &bytes, bytes.len(), &|n| [1, 2, 3, 3][n as usize]).unwrap().at_ns, 3);
    assert_eq!(of(VERSION, &bytes, bytes.len(), &|n| n.into()), Err(Refused::Changing), "0 is being changed");
    assert_eq!(of(VERSION, &bytes, bytes.len(), &|_| 0), Err(Refused::Changing));
}

#[test]
fn damaged_contexts_are_refused() {
    let bytes = payload(&[("service.name", "shop")]);
    let length = bytes.len();
    for version in [0, 1, 3] {
        assert_eq!(of(version, &bytes, length, &|_| 7), Err(Refused::Malformed), "version {version}");
    }
    assert_eq!(of(VERSION, &bytes, LONGEST + 1, &|_| 7), Err(Refused::Malformed), "too long");
    assert_eq!(of(VERSION, &bytes, length + 1, &|_| 7), Err(Refused::Malformed), "longer than its memory");
    for cut in 1..length {
        assert_eq!(of(VERSION, &bytes, cut, &|_| 7), Err(Refused::Malformed), "cut at {cut}");
    }
    for bit in 0..length * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        // It may still be a message: then its texts are short and have no control characters.
        if let Ok(published) = of(VERSION, &flipped, length, &|_| 7) {
            assert!(published.service.is_none_or(|name| !name.is_empty() && !name.chars().any(char::is_control)));
        }
    }
}

#[test]
fn a_mapping_is_known_by_its_name() {
    let line = |name: &str| mapping(&format!("7f00a000-7f00b000 rw-p 00000000 00:01 12      {name}"));
    for name in ["/memfd:OTEL_CTX (deleted)", "[anon_shmem:OTEL_CTX]", "[anon:OTEL_CTX]"] {
        assert_eq!(line(name), Some(0x7f00_a000), "{name}");
    }
    for name in ["", "/memfd:OTEL_CTX2 (deleted)", "[anon:other]", "/tmp/OTEL_CTX"] {
        assert_eq!(line(name), None, "{name}");
    }
}

#[test]
fn a_process_is_asked_less_and_less_often_until_it_publishes() {
    let start = Instant::now();
    let mut asked = Asked::first(None, start);
    assert!(!asked.is_due(start) && asked.is_due(start + FIRST_PAUSE));
    asked.again(None, start);
    assert!(!asked.is_due(start + FIRST_PAUSE) && asked.is_due(start + FIRST_PAUSE * 2));
    (0..20).for_each(|_| asked.again(None, start));
    assert!(asked.is_due(start + LONGEST_PAUSE));
    asked.again(Some(1), start);
    assert!(asked.is_due(start + FIRST_PAUSE), "it may change again");
    assert!(Asked::inherited(Some(1), start).is_due(start));
}

/// A process of Python that publishes (`tests/apps/sdk/publish.py`), and says what it has done.
struct Publisher(Child);

impl Publisher {
    fn new(how: &str) -> Option<Self> {
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/apps/sdk/publish.py");
        let mut python = Command::new("python3");
        let child = python.arg(program).arg(how).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
        let mut publisher = Publisher(child);
        publisher.line();
        Some(publisher)
    }

    /// Waits until it has done the next step.
    fn line(&mut self) {
        use std::io::Read as _;
        let mut byte = [0];
        self.0.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
    }

    fn read(&self) -> Result<Published, Refused> {
        read(Path::new(&format!("/proc/{}", self.0.id())))
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_real_process_is_read_however_it_publishes() {
    for how in ["memfd", "anonymous"] {
        let Some(publisher) = Publisher::new(how) else {
            println!("skipped: needs python3");
            return;
        };
        let found = publisher.read();
        if how == "anonymous" && found == Err(Refused::Absent) {
            println!("skipped: this kernel gives private memory no name");
            continue;
        }
        let published = found.unwrap();
        assert_eq!(published.service.as_deref(), Some("published-shop"), "{how}");
        let [(key, value)] = &published.extra[..] else { panic!("{published:?}") };
        assert_eq!((&**key, &**value), ("service.instance.id", "627cc493"));
    }
    for (how, refused) in [("version", Refused::Malformed), ("long", Refused::Malformed), ("busy", Refused::Changing)] {
        assert_eq!(Publisher::new(how).unwrap().read(), Err(refused), "{how}");
    }
    assert_eq!(read(Path::new("/proc/self")), Err(Refused::Absent));
}

/// The process changes its context all the time: what is read is one of the contexts, never a mixture.
#[test]
fn a_real_process_that_changes_its_context_is_never_read_torn() {
    let Some(publisher) = Publisher::new("changing") else { return };
    let (mut whole, mut changing) = (0, 0);
    for _ in 0..2_000 {
        match publisher.read() {
            Ok(published) => {
                let instance = &published.extra.first().unwrap().1;
                assert_eq!(published.service.as_deref(), Some(&*format!("shop-{instance}")));
                whole += 1;
            }
            Err(refused) => {
                assert_eq!(refused, Refused::Changing);
                changing += 1;
            }
        }
    }
    println!("{whole} whole, {changing} changed each time");
    assert!(whole > 0);
}
