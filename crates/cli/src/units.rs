//! Amounts and moments, as people read and write them.

use std::time::Duration;

pub(crate) use cede_wire::shown::bytes;
use cede_wire::shown::three_digits;

/// A duration: `7 ms`, `1.24 s`, `3 min 5 s`.
pub(crate) fn millis(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{} s", three_digits(ms, 1_000)),
        _ => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1_000),
    }
}

/// A rest of time: `40 s`, `59 min`, `7 h 55 min`.
pub(crate) fn rest(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        _ => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
    }
}

/// A moment, milliseconds since 1970, as date and time in UTC.
pub(crate) fn moment(unix_ms: u64) -> String {
    let (days, seconds) = (unix_ms / 86_400_000, unix_ms / 1_000 % 86_400);
    let (year, month, day) = date(days);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}Z", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

/// Year, month and day of a day since 1970. Counted from 1 March of a year 0, so that the odd day is a year's last.
/// Source: the Gregorian calendar repeats itself after 146,097 days.
fn date(days: u64) -> (u64, u64, u64) {
    let since = days + 719_468;
    let (era, of_era) = (since / 146_097, since % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march + 2) / 5 + 1;
    let month = if march < 10 { march + 3 } else { march - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
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

/// What a person writes for a time: `90s`, `5m`, `1h`, `7d`; whole numbers only.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "expected a time of a second or more, like 90s, 5m, 1h or 7d".to_owned();
    let number = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let each = match text.get(number.len()..) {
        Some("s") => 1,
        Some("m" | "min") => 60,
        Some("h") => 3_600,
        Some("d") => 86_400,
        Some(_) | None => return Err(wrong()),
    };
    let seconds = number.parse::<u64>().ok().and_then(|number| number.checked_mul(each));
    seconds.filter(|seconds| *seconds > 0).map(Duration::from_secs).ok_or_else(wrong)
}

/// What a person writes for an amount of bytes: `500MB`, `20GB`; whole numbers only.
pub(crate) fn amount(text: &str) -> Result<u64, String> {
    let wrong = || "expected an amount, like 500MB or 20GB".to_owned();
    let number = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let each = match text.get(number.len()..).map(str::trim) {
        Some("kB") => 1_000,
        Some("MB") => 1_000_000,
        Some("GB") => 1_000_000_000,
        Some("TB") => 1_000_000_000_000,
        Some(_) | None => return Err(wrong()),
    };
    number.parse::<u64>().ok().and_then(|number| number.checked_mul(each)).ok_or_else(wrong)
}

/// A number with its noun: `1 file`, `2 files`.
pub(crate) fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_dates_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00Z"),
            (951_782_399, "2000-02-28 23:59:59Z"),
            (951_782_400, "2000-02-29 00:00:00Z"),
            (4_107_542_400, "2100-03-01 00:00:00Z"),
            (1_790_000_000, "2026-09-21 14:13:20Z"),
        ] {
            assert_eq!(moment(seconds * 1_000), text);
        }
        assert_eq!([40, 3_599, 28_500].map(rest), ["40 s", "59 min", "7 h 55 min"]);
    }

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
        let read = ["2s", "90s", "5m", "5min", "1h", "7d"].map(|text| duration(text).unwrap().as_secs());
        assert_eq!(read, [2, 90, 300, 300, 3_600, 604_800]);
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
