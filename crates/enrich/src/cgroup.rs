//! Container and pod from the text of `/proc/PID/cgroup`.
//!
//! Runtimes write the 64-digit container id into the path of the cgroup, each in its own way:
//! `docker-ID.scope`, `/docker/ID`, `cri-containerd-ID.scope`, `crio-ID.scope`, `libpod-ID.scope`,
//! `…:cri-containerd:ID`, `/kubepods/burstable/podUID/ID`; ECS on Fargate writes `/ecs/TASK/TASK-NUMBER`.

/// Facts from the path of a cgroup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Container {
    /// Container id, lower-case hex; `None` outside containers.
    pub(crate) id: Option<Box<str>>,
    /// `k8s.pod.uid` with dashes.
    pub(crate) pod_uid: Option<Box<str>>,
}

/// Reads all lines; the deepest match wins, as the inner container is the one that runs the process.
pub(crate) fn parse(text: &str) -> Container {
    let mut found = Container::default();
    for line in text.lines() {
        // hierarchy-ID:controllers:path
        let Some(path) = line.splitn(3, ':').nth(2) else { continue };
        for segment in path.split('/') {
            if let Some(id) = container_id(segment) {
                found.id = Some(id.to_ascii_lowercase().into());
            }
            if let Some(uid) = pod_uid(segment) {
                found.pod_uid = Some(uid.into());
            }
        }
    }
    found
}

fn container_id(segment: &str) -> Option<&str> {
    let name = segment.strip_suffix(".scope").unwrap_or(segment);
    // conmon is the monitor beside the container, not the container.
    if name.contains("-conmon-") {
        return None;
    }
    let tail = name.rsplit(['-', ':']).next()?;
    if is_hex(tail, 64) {
        return Some(tail);
    }
    // ECS on Fargate: 32 hex digits of the task, a dash, and a number.
    let (task, number) = name.split_once('-')?;
    (is_hex(task, 32) && !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())).then_some(name)
}

fn pod_uid(segment: &str) -> Option<String> {
    let name = segment.split(':').next()?;
    let name = name.strip_suffix(".slice").unwrap_or(name);
    let at = name.rfind("pod")?;
    // `pod` must start the segment or follow a dash, or `kubepods` itself would match.
    if at != 0 && name.as_bytes().get(at - 1) != Some(&b'-') {
        return None;
    }
    let uid = name.get(at + 3..)?.replace('_', "-");
    let plain = is_hex(&uid, 32); // static pods have the hash of their manifest instead of a UUID
    let uuid = uid.len() == 36
        && uid.split('-').map(str::len).eq([8, 4, 4, 4, 12])
        && uid.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit());
    (plain || uuid).then_some(uid)
}

fn is_hex(s: &str, len: usize) -> bool {
    s.len() == len && s.bytes().all(|b| b.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "3f1c9a77b2d84e0f9a6c5d4e3f2a1b0c3f1c9a77b2d84e0f9a6c5d4e3f2a1b0c";

    fn of(path: &str) -> (Option<String>, Option<String>) {
        let c = parse(&format!("0::{path}\n"));
        (c.id.map(Into::into), c.pod_uid.map(Into::into))
    }

    #[test]
    fn every_runtime_writes_its_own_path() {
        let uid = "0a1b2c3d-1111-2222-3333-444455556666";
        let under = uid.replace('-', "_");
        let id = Some(ID.to_string());
        let pod = Some(uid.to_string());
        for (path, want) in [
            (format!("/system.slice/docker-{ID}.scope"), (id.clone(), None)),
            (format!("/docker/{ID}"), (id.clone(), None)),
            (format!("/docker/{ID}/init.scope"), (id.clone(), None)),
            (format!("/machine.slice/libpod-{ID}.scope/container"), (id.clone(), None)),
            (
                format!(
                    "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{under}.slice/cri-containerd-\
                    {ID}.scope"
                ),
                (id.clone(), pod.clone()),
            ),
            (format!("/kubepods.slice/kubepods-pod{under}.slice/crio-{ID}.scope"), (id.clone(), pod.clone())),
            (format!("/kubepods/besteffort/pod{uid}/{ID}"), (id.clone(), pod.clone())),
            (
                format!("/system.slice/containerd.service/kubepods-besteffort-pod{under}.slice:cri-containerd:{ID}"),
                (id.clone(), pod.clone()),
            ),
            ("/user.slice/user-1000.slice/session-2.scope".into(), (None, None)),
            ("/kubepods.slice".into(), (None, None)),
            (format!("/machine.slice/libpod-conmon-{ID}.scope"), (None, None)),
            ("/".into(), (None, None)),
        ] {
            assert_eq!(of(&path), want, "{path}");
        }
    }

    #[test]
    fn ecs_task_and_static_pod() {
        let task = "0123456789abcdef0123456789abcdef";
        assert_eq!(of(&format!("/ecs/{task}/{task}-1234567890")).0, Some(format!("{task}-1234567890")));
        assert_eq!(of(&format!("/kubepods/burstable/pod{task}/{ID}")).1, Some(task.to_string()));
    }

    #[test]
    fn the_inner_container_wins_over_the_outer_and_garbage_is_ignored() {
        let inner = ID.replace('3', "a");
        assert_eq!(of(&format!("/docker/{ID}/docker/{inner}")).0, Some(inner));
        assert_eq!(parse("no colons here\n1:cpu\n\n"), Container::default());
        assert_eq!(parse("0::/pod\n0::/pod-é\n0::/é-pod_\n"), Container::default());
    }
}
