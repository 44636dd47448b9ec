//! Amounts and moments, as people read and write them.

use std::time::Duration;

/// Bytes in decimal units with three digits: `999 B`, `1.23 kB`, `45.6 MB`.
pub(crate) fn bytes(count: u64) -> String {
    let units = [("TB", 1_000_000_000_000), ("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)];
    match units.into_iter().find(|(_, size)| count >= *size) {
        Some((unit, size)) => format!("{} {unit}", three_digits(count, size)),
        None => format!("{count} B"),
    }
}

/// A duration: `7 ms`, `1.24 s`, `3 min 5 s`.
pub(crate) fn millis(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{} s", three_digits(ms, 1_000)),
        _ => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1_000),
    }
}

/// How long ago a moment was, both in milliseconds since 1970: `now`, `5 min ago`, `3 days ago`.
pub(crate) fn ago(moment: u64, now: u64) -> String {
    let seconds = now.saturating_sub(moment) / 1_000;
    match seconds {
        _ if moment == 0 => "unknown".to_owned(),
        0..60 => "now".to_owned(),
        60..3_600 => format!("{} min ago", seconds / 60),
        3_600..172_800 => format!("{} h ago", seconds / 3_600),
        _ => format!("{} days ago", seconds / 86_400),
    }
}

/// What a person writes for a time: `90s`, `5m`, `1h`; whole numbers only.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "expected a time, like 90s, 5m or 1h".to_owned();
    let number = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let each = match text.get(number.len()..) {
        Some("s") => 1,
        Some("m" | "min") => 60,
        Some("h") => 3_600,
        Some(_) | None => return Err(wrong()),
    };
    let seconds = number.parse::<u64>().ok().and_then(|number| number.checked_mul(each));
    seconds.filter(|seconds| *seconds > 0).map(Duration::from_secs).ok_or_else(wrong)
}

/// A number with its noun: `1 file`, `2 files`.
pub(crate) fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

fn three_digits(count: u64, size: u64) -> String {
    let whole = count / size;
    let hundredths = count % size * 100 / size;
    match whole {
        0..10 => format!("{whole}.{hundredths:02}"),
        10..100 => format!("{whole}.{}", hundredths / 10),
        _ => whole.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_three_digits() {
        let shown: Vec<String> = [0, 999, 1_000, 1_234_567, 45_678_901, 1 << 30, u64::MAX].map(bytes).into();
        assert_eq!(shown, ["0 B", "999 B", "1.00 kB", "1.23 MB", "45.6 MB", "1.07 GB", "18446744 TB"]);
    }

    #[test]
    fn durations_grow_into_minutes() {
        assert_eq!([7, 1_240, 59_999, 185_000].map(millis), ["7 ms", "1.24 s", "59.9 s", "3 min 5 s"]);
    }

    #[test]
    fn time_is_read_with_its_unit_only() {
        let read = ["2s", "90s", "5m", "5min", "1h"].map(|text| duration(text).unwrap().as_secs());
        assert_eq!(read, [2, 90, 300, 300, 3_600]);
        for bad in
            ["", "5", "m", "0s", "-5m", "1.5h", "5 m", "5mm", "99999999999999999999s", "6000000000000000000h", "5µ"]
        {
            assert!(duration(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn moment_in_the_future_is_now() {
        assert_eq!(ago(2_000, 1_000), "now");
        assert_eq!(ago(1, 300_001), "5 min ago");
        assert_eq!(ago(0, 300_000), "unknown");
    }
}
