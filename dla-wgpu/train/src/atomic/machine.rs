//! Which machine a process runs on: a folder on a network may be written by several.

/// The lines by which another process recognises this machine.
///
/// On Linux `boot ID`, which processes of one kernel share, in containers too, and `host ID NAME`, which outlasts a new start;
/// elsewhere `host NAME`.
pub(super) fn lines() -> Vec<String> {
    #[cfg(target_os = "linux")]
    let lines = {
        let word = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let boot = word("/proc/sys/kernel/random/boot_id");
        let [id, name] = ["/etc/machine-id", "/proc/sys/kernel/hostname"].map(word);
        let mut lines = Vec::new();
        if !boot.trim().is_empty() {
            lines.push(format!("boot {}", boot.trim()));
        }
        if !id.trim().is_empty() {
            lines.push(format!("host {} {}", id.trim(), name.trim()));
        }
        lines
    };
    #[cfg(not(target_os = "linux"))]
    let lines = vec![format!("host {}", gethostname::gethostname().display())];
    lines
}

/// Whether one of the lines of `text` is this machine's.
pub(super) fn is_named_in(text: &str) -> bool {
    let own = lines();
    text.lines().any(|line| own.iter().any(|own| own == line))
}

#[cfg(test)]
mod tests {
    use super::{is_named_in, lines};

    #[test]
    fn a_machine_knows_itself_and_no_other() {
        let own = lines();
        assert!(!own.is_empty());
        for line in &own {
            assert!(is_named_in(&format!("process 1\n{line}\n")), "{line}");
            assert!(!is_named_in(&format!("process 1\n{line}x\n")), "{line}x");
        }
        assert!(!is_named_in("") && !is_named_in("process 1\nhost\nboot\n"));
    }
}
