"""Which part of a log travels: the first part of the current server start, and the tail; cleaned, and read by seeking.

Dropped on the way: successful access-log lines, the text of users' requests, and the middle of progress bars. A log of
many gigabytes costs a few megabytes of reading. Its start is found from the end backwards, or, further back, by
bisecting on the time stamps of the lines against the start time of the process.
"""

import calendar
import re
import time

BLOCK = 1 << 20
SMALL = 8 << 20  # up to here the whole file is read
BACK = 48 << 20  # searched backwards for the start of the server
RAW = 6 << 20  # read of a large file at either end, before cleaning
LINE = 64 << 10  # a longer line is cut
BEFORE = 8 << 10  # lines before the banner belong to the start: warnings on import, the logo

# non-default args: {...}    vLLM API server version 0.8.5    server_args=ServerArgs(...)
BANNER = re.compile(rb"non-default args: |API server version |server_args=")
# where neither is logged: Initializing a V1 LLM engine (v0.20.1) with config: ...
LATER = re.compile(rb"Initializing an? (?:V\d )?LLM engine ")
STAMP = re.compile(rb"(?:(?P<year>20\d\d)-)?(?P<month>\d\d)-(?P<day>\d\d)[ T](?P<hms>\d\d:\d\d:\d\d)")


class Cleaner:
    """Takes raw bytes, gives the lines worth keeping."""

    def __init__(self, drop, progress):
        self._drop = re.compile("|".join("(?:%s)" % p for p in drop).encode("utf-8")) if drop else None
        self._progress = re.compile(progress.encode("utf-8")) if progress else None
        self._rest = b""
        self._held = None

    def feed(self, data):
        """Complete lines of this block, cleaned."""
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > LINE:
            lines.append(self._rest[:LINE] + b" [cut]")
            self._rest = b""
        out = []
        for line in lines:
            self._take(line, out)
        return out

    def end(self):
        """What is still held: the last line without its newline, the last state of a bar."""
        out = []
        if self._rest:
            self._take(self._rest, out)
        if self._held is not None:
            out.append(self._held)
        self._rest, self._held = b"", None
        return out

    def _take(self, line, out):
        if b"\r" in line:  # a bar drew over itself: its last state counts
            line = next((part for part in reversed(line.split(b"\r")) if part.strip()), b"")
        if len(line) > LINE:
            line = line[:LINE] + b" [cut]"
        if self._drop is not None and self._drop.search(line[:4096]):
            return
        if self._progress is not None and self._progress.search(line[:1024]):
            self._held = line
            return
        if self._held is not None:
            out.append(self._held)
            self._held = None
        out.append(line)


def starts(text):
    """Offsets where servers start in this text, each a little before its banner."""
    found = []
    for pattern in (BANNER, LATER):
        for match in pattern.finditer(text):
            if not found or match.start() - found[-1] > BEFORE:
                found.append(match.start())
        if found:
            break
    return [line_start(text, at) for at in found]


def line_start(text, at):
    """Start of the first whole line in the BEFORE bytes in front of `at`."""
    if at <= BEFORE:
        return 0
    newline = text.find(b"\n", at - BEFORE, at)
    return newline + 1 if newline >= 0 else at


def excerpt(f, size, cleaner, head, tail, started=None, written=None):
    """(text, note) of a seekable log: first `head` bytes of the current start and last `tail`, after cleaning."""
    if size <= SMALL:
        return _fit(_clean(cleaner, _read(f, 0, size)), size, head, tail)
    begin = _find_start(f, size, started, written)
    end_at = max(0, size - RAW)
    if begin is not None and begin >= end_at:
        return _fit(_clean(cleaner, _read(f, begin, size - begin)), size, head, tail)
    ending = _clean(cleaner, _whole_lines(_read(f, end_at, size - end_at)))[-tail:]
    ending = ending[ending.find(b"\n") + 1 :]
    note = "server.log: of %s the last %s were read" % (amount(size), amount(size - end_at))
    if begin is None:
        return _left_out("what came before") + ending, note + "; the start of the server was not found in them"
    beginning = _clean(cleaner, _read(f, begin, min(RAW, end_at - begin)))[:head]
    beginning = beginning[: beginning.rfind(b"\n") + 1]
    gap = _left_out("%s of the log" % amount(end_at - begin - min(RAW, end_at - begin)))
    return beginning + gap + ending, note + ", and the first part of the current start"


def fit(data, cleaner, head, tail):
    """The same for text that is already in memory (a command's output)."""
    return _fit(_clean(cleaner, data), len(data), head, tail)


def _fit(text, size, head, tail):
    if len(text) <= head + tail:
        return text, None
    begins = starts(text) or [0]
    begin = begins[-1]
    if len(text) - begin <= head + tail:
        # earlier starts go along as far as they fit: they are what today's is held against
        return text[min(b for b in begins if len(text) - b <= head + tail) :], None
    ending = text[len(text) - tail :]
    beginning = text[begin : begin + head]
    beginning = beginning[: beginning.rfind(b"\n") + 1]
    ending = ending[ending.find(b"\n") + 1 :]
    note = "server.log: of %s the first %s of the current start and the last %s were taken" % (
        amount(size), amount(head), amount(tail))  # fmt: skip
    return beginning + _left_out(amount(len(text) - begin - head - tail)) + ending, note


def _left_out(what):
    return b"[dflash-doctor: %s left out here]\n" % what.encode("utf-8")


def amount(size):
    """`3.1 GB`."""
    for unit in ("bytes", "KB", "MB"):
        if size < 1024:
            return "%.3g %s" % (size, unit)
        size /= 1024.0
    return "%.3g GB" % size


def _clean(cleaner, data):
    lines = cleaner.feed(data) + cleaner.end()
    return b"".join(line + b"\n" for line in lines)


def _whole_lines(data):
    return data[data.find(b"\n") + 1 :]


def _read(f, at, length):
    f.seek(at)
    out = []
    while length > 0:
        block = f.read(min(BLOCK, length))
        if not block:
            break
        out.append(block)
        length -= len(block)
    return b"".join(out)


def _find_start(f, size, started, written):
    """Offset of the start of the current server in a large file, or None."""
    window = _read(f, max(0, size - BLOCK), BLOCK)
    at = max(0, size - BLOCK)
    while True:
        found = starts(window)
        if found:
            return at + found[-1]
        if at == 0 or size - at >= BACK:
            break
        step = min(BLOCK, at)
        # a banner may lie across two blocks
        window = _read(f, at - step, step + 256)
        at -= step
    near = _by_time(f, size, started, written)
    if near is not None:
        found = starts(_read(f, near, 4 * BLOCK))
        if found:
            return near + found[0]
    # one start since the file began, as with `> server.log`
    found = starts(_read(f, 0, BLOCK))
    return found[-1] if found and near is None else None


def _by_time(f, size, started, written):
    """Where lines become younger than the process. The clock of the log is set by its last line and the file's mtime:
    the host's zone need not be the container's."""
    last = _stamp(_read(f, max(0, size - BLOCK), BLOCK), written, last=True)
    if started is None or written is None or last is None:
        return None
    zone = round((last - written) / 900.0) * 900.0
    goal = started + zone - 5.0
    low, high = 0, size
    while high - low > BLOCK:
        middle = (low + high) // 2
        stamp = _stamp(_read(f, middle, 256 << 10), written)
        if stamp is None:
            return None
        low, high = (middle, high) if stamp < goal else (low, middle)
    return low


def _stamp(data, about, last=False):
    """Seconds of the first (or last) time stamp in a block, as if it were UTC; the year is that of `about`."""
    found = list(STAMP.finditer(data)) if last else [m for m in [STAMP.search(data)] if m]
    if not found or about is None:
        return None
    m = found[-1]
    this = time.gmtime(about)
    year = int(m.group("year") or this.tm_year)
    if m.group("year") is None and int(m.group("month")) > this.tm_mon:
        year -= 1  # written in December, read in January
    text = "%d-%s-%s %s" % (year, m.group("month").decode(), m.group("day").decode(), m.group("hms").decode())
    try:
        return calendar.timegm(time.strptime(text, "%Y-%m-%d %H:%M:%S"))
    except ValueError:
        return None
