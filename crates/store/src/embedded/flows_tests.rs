#![allow(clippy::unwrap_used)]
use super::*;
use std::net::{IpAddr, Ipv4Addr};
use wirespan_model::{FlowCounts, FlowKey, Role, Transport};

fn open(dir: Option<&Path>, max_bytes: u64) -> (FlowLog, Vec<String>) {
    let options = Options { max_age: Duration::from_secs(1 << 32), max_bytes, ..Options::default() };
    let damage = Arc::new(Damage::default());
    let log = FlowLog::open(dir, &options, &Arc::new(Age::new(None)), &damage, false).unwrap();
    (log, damage.list())
}

fn flow(n: u64) -> Flow {
    let ip = IpAddr::V4(Ipv4Addr::from(n as u32));
    let key = FlowKey {
        host_id: 1,
        role: Role::Client,
        transport: Transport::Tcp,
        local: ip,
        remote: ip,
        port: 80,
        pid: n as u32,
        process_start_ns: n,
        netns: 1,
    };
    let counts = FlowCounts { bytes_sent: n, drops: [("NO_SOCKET".into(), n)].into(), ..FlowCounts::default() };
    let (comm, resource) = ("c".into(), Arc::default());
    Flow { start_ns: n * 10, end_ns: n * 10 + 10, key, comm, cgroup_id: 0, client_port: 1, resource, counts }
}

fn scan(log: &FlowLog, from_ns: u64, to_ns: u64) -> Vec<u64> {
    let mut found = Vec::new();
    log.scan(TimeRange { from_ns, to_ns }, &mut |f| found.push(f.counts.bytes_sent)).unwrap();
    found
}

#[test]
fn windows_that_touch_the_range_are_found_also_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    for dir in [None, Some(dir.path())] {
        let log = open(dir, 1 << 30).0;
        (0..100).for_each(|n| log.append(&[flow(n), flow(n)]).unwrap());
        assert_eq!(scan(&log, 505, 520), [50, 50, 51, 51]);
        assert_eq!(scan(&log, 0, u64::MAX).len(), 200);
    }
    let log = open(Some(dir.path()), 1 << 30).0;
    assert_eq!(scan(&log, 505, 520), [50, 50, 51, 51]);
    assert!(log.sync().is_ok() && log.disk_bytes() > 1000);
}

#[test]
fn a_torn_tail_costs_only_itself() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(Some(dir.path()), 1 << 30).0;
    log.append(&[flow(1)]).unwrap();
    let whole = log.disk_bytes();
    log.append(&[flow(2)]).unwrap();
    let end = log.disk_bytes();
    drop(log);
    let path = dir.path().join("flows/00000000.log");
    let bytes = fs::read(&path).unwrap();
    for cut in [whole, whole + 3, whole + HEAD as u64, end - 1] {
        fs::write(&path, &bytes[..cut as usize]).unwrap();
        let log = open(Some(dir.path()), 1 << 30).0;
        assert_eq!(scan(&log, 0, u64::MAX), [1], "cut at {cut}");
        log.append(&[flow(3)]).unwrap();
        assert_eq!(scan(&log, 0, u64::MAX), [1, 3]);
        fs::remove_file(dir.path().join("flows/00000001.log")).unwrap();
    }
    for at in (MAGIC.len()..whole as usize).chain([whole as usize + HEAD]) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        fs::write(&path, &damaged).unwrap();
        let (log, said) = open(Some(dir.path()), 1 << 30);
        let left = if at < whole as usize { [2] } else { [1] };
        assert_eq!(scan(&log, 0, u64::MAX), left, "a bit flipped at {at}");
        assert_eq!(said.is_empty(), left == [1], "a bit flipped at {at}: {said:?}");
        assert_eq!(fs::read(&path).unwrap(), damaged, "the file stays as it is");
    }
    fs::write(&path, b"something else").unwrap();
    let (log, said) = open(Some(dir.path()), 1 << 30);
    assert!(said.len() == 1 && said[0].contains("00000000.log"), "{said:?}");
    log.append(&[flow(4)]).unwrap();
    assert_eq!(scan(&log, 0, u64::MAX), [4]);
}

#[test]
fn memory_is_bounded_and_the_newest_stay() {
    let log = open(None, 16 << 20).0;
    for n in 0..4000u64 {
        let many: Vec<Flow> =
            (0..100u64).map(|i| flow((n * 100 + i).wrapping_mul(2_654_435_761) % (1 << 40))).collect();
        log.append(&many).unwrap();
    }
    log.append(&[flow(7)]).unwrap();
    let total: u64 = log.lock().parts.iter().map(|p| p.len).sum();
    assert!(total <= (2 << 20) + MAX_FILE / 4, "{total}");
    assert_eq!(scan(&log, 70, 80).last(), Some(&7));
}
