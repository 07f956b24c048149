"""Stamps of logs as seconds: since the epoch where there is a date, else comparable within one log.

vLLM stamps have neither year nor zone (`05-21 21:31:45`); they count from the first of January of an unnamed year.
"""

from __future__ import annotations

import calendar
import re
from functools import lru_cache

# 2026-11-23T09:14:07.123456789Z, 2026-11-23 09:14:07,123, 2026-11-23T09:14:07+0100
ISO = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?\s?(?:(Z)|([+-])(\d\d):?(\d\d))?",
)
# 05-21 21:31:45
SHORT = re.compile(r"(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)")
# Nov 23 09:14:07
SYSLOG = re.compile(r"([A-Z][a-z]{2}) ([ \d]\d) (\d\d):(\d\d):(\d\d)")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
DAYS_BEFORE = (0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335)  # of a leap year: Feb 29 must have its place
YEAR = 366 * 86400.0


@lru_cache(maxsize=4096)
def epoch(stamp: str) -> float | None:
    """Seconds since the epoch of a stamp with a date, read as UTC where it names no zone."""
    m = ISO.match(stamp)
    if not m:
        return short(stamp)
    year, month, day, hour, minute, second = (int(m[i]) for i in range(1, 7))
    if not (1 <= month <= 12 and 1 <= day <= 31 and year >= 1970):
        return None
    fraction = float(f"0.{m[7]}") if m[7] else 0.0
    zone = (int(m[10]) * 3600 + int(m[11]) * 60) * (1 if m[9] == "+" else -1) if m[9] else 0
    return calendar.timegm((year, month, day, hour, minute, second)) + fraction - zone


@lru_cache(maxsize=4096)
def short(stamp: str) -> float | None:
    """Seconds since the first of January of a stamp without a year."""
    m = SHORT.match(stamp)
    if m:
        month, day, hour, minute, second = (int(m[i]) for i in range(1, 6))
    elif (m := SYSLOG.match(stamp)) and m[1] in MONTHS:
        month, (day, hour, minute, second) = MONTHS.index(m[1]) + 1, (int(m[i]) for i in range(2, 6))
    else:
        return None
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return None
    return (DAYS_BEFORE[month - 1] + day - 1) * 86400.0 + hour * 3600 + minute * 60 + second


def later(previous: float | None, now: float) -> float:
    """`now` moved on by a year when a log without years has passed New Year's Eve."""
    if previous is None or now >= previous - YEAR / 2:
        return now
    return now + YEAR * (1 + int((previous - YEAR / 2 - now) // YEAR))
