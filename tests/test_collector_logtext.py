"""Which part of a log travels."""

import calendar
import io
import random

from guests import hide, logtext, wire

from dflash_doctor.collect import program

LIMITS = program.questions()["log"]
BOOT = "(APIServer pid={0}) INFO 12-01 04:09:28 [api_utils.py:286] non-default args: {{'port': {0}}}\n"
STEADY = "(APIServer pid=1) INFO 12-01 {:02d}:{:02d}:{:02d} [loggers.py:259] Engine 000: Avg prompt throughput: 1.0\n"


def cleaner():
    return logtext.Cleaner(LIMITS["drop"], LIMITS["progress"])


def cleaned(text):
    c = cleaner()
    lines = c.feed(text.encode())
    return b"".join(line + b"\n" for line in lines + c.end()).decode()


def excerpt(data, head=LIMITS["head"], tail=LIMITS["tail"], started=None, written=None):
    text, note = logtext.excerpt(io.BytesIO(data), len(data), cleaner(), head, tail, started, written)
    return text.decode("utf-8", "replace"), note


def test_requests_that_went_well_are_dropped_and_failed_ones_kept():
    good = '(APIServer pid=1) INFO:     10.0.0.7:51122 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
    bad = '(APIServer pid=1) INFO:     10.0.0.7:51122 - "POST /v1/chat/completions HTTP/1.1" 400 Bad Request\n'
    assert cleaned(good + bad + "INFO x\n") == bad + "INFO x\n"


def test_what_users_asked_does_not_travel():
    lines = (
        "INFO 12-01 04:09:28 [logger.py:39] Received request chatcmpl-1: prompt: 'my diary', params: SamplingParams()\n"
        "[2026-11-23 09:00:00] Receive: obj=GenerateReqInput(text='my diary')\n"
        "[2026-11-23 09:00:01] Finish: obj=GenerateReqInput(text='my diary')\n"
    )
    assert cleaned(lines + "INFO x\n") == "INFO x\n"


def test_of_a_progress_bar_the_last_state_is_kept():
    bar = "Loading safetensors checkpoint shards:  {}% Completed | {}/4 [00:01<00:03,  1.00s/it]\n"
    assert (
        cleaned(bar.format(25, 1) + bar.format(50, 2) + bar.format(100, 4) + "INFO x\n")
        == bar.format(100, 4) + "INFO x\n"
    )
    assert (
        cleaned("Capturing:  10%|#  | 1/9\rCapturing: 100%|###| 9/9\nINFO x\n") == "Capturing: 100%|###| 9/9\nINFO x\n"
    )
    # also when the log ends in the middle of it
    assert cleaned(bar.format(25, 1)) == bar.format(25, 1)


def test_a_line_without_end_is_cut():
    text = cleaned("x" * 1_000_000)
    assert len(text) < 2 * logtext.LINE * 10 and "[cut]" in text


def test_a_log_that_fits_travels_whole_with_earlier_starts():
    text = BOOT.format(1) + STEADY.format(1, 2, 3) + BOOT.format(2)
    assert excerpt(text.encode()) == (text, None)


def test_of_a_log_that_does_not_fit_the_current_start_and_the_tail_are_taken():
    old = "old line of another start\n" * 4000
    now = BOOT.format(2) + "".join(STEADY.format(5, i // 60 % 60, i % 60) for i in range(3000))
    text, note = excerpt((BOOT.format(1) + old + now).encode(), head=20_000, tail=2000)
    assert "non-default args: {'port': 2}" in text and "'port': 1" not in text
    assert "left out here" in text and text.endswith(now[-1000:])
    assert len(text) < 20_000 + 2000 + 200
    assert "first 19.5 KB of the current start" in note


def test_lines_before_the_banner_belong_to_the_start():
    warning = "Triton is installed, but doesn't include CPU backend.\n"
    text, _ = excerpt((("old\n" * 5000) + warning + BOOT.format(2) + STEADY.format(1, 2, 3) * 300).encode(), 9000, 3000)
    assert warning in text


class Huge(io.RawIOBase):
    """A log of many gigabytes that counts what is read of it: one start, then steady lines, one a second."""

    LINE = 128

    def __init__(self, seconds, restart=None):
        self.at = self.read_bytes = 0
        self.size = seconds * self.LINE
        self.restart = restart

    def line(self, i):
        day, rest = divmod(i, 86400)
        stamp = f"11-{1 + day:02d} {rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
        what = f"non-default args: {{'start': {i}}}" if i in (0, self.restart) else "Engine 000: steady"
        return f"INFO {stamp} [x.py:1] {what}".ljust(self.LINE - 1).encode() + b"\n"

    def seek(self, at, whence=0):
        self.at = at
        return at

    def read(self, size=-1):
        size = max(0, min(size, self.size - self.at))
        first, last = self.at // self.LINE, (self.at + size + self.LINE - 1) // self.LINE
        data = b"".join(self.line(i) for i in range(first, last))
        skip = self.at - first * self.LINE
        self.at += size
        self.read_bytes += size
        return data[skip : skip + size]


def test_a_huge_log_is_read_by_seeking():
    # 12 days at a line a second, restarted on day 2: far behind the tail, found by the time stamps
    log = Huge(12 * 86400, restart=2 * 86400 + 500)
    zone = 5 * 3600  # the container's clock shows another zone than the host's
    began = calendar.timegm((2026, 11, 3, 0, 8, 20)) - zone
    written = calendar.timegm((2026, 11, 12, 23, 59, 59)) - zone
    small, logtext.BACK = logtext.BACK, 8 << 20
    try:
        text, note = logtext.excerpt(log, log.size, cleaner(), 700_000, 500_000, began, written)
    finally:
        logtext.BACK = small
    assert f"'start': {2 * 86400 + 500}".encode() in text and b"'start': 0" not in text
    assert text.rstrip().endswith(b"steady") and len(text) < 1_300_000
    assert log.read_bytes < 40 << 20 < log.size
    assert "of 127 MB the last 6 MB were read, and the first part of the current start" in note


def test_a_huge_log_whose_start_is_lost_says_so():
    log = Huge(12 * 86400, restart=2 * 86400 + 500)
    small, logtext.BACK = logtext.BACK, 2 << 20
    try:
        # no start time is known: the start at the top of the file need not be the current one … but it is all there is
        text, note = logtext.excerpt(log, log.size, cleaner(), 700_000, 500_000, None, None)
        assert b"'start': 0" in text
        # the process began when the log says nothing of a start
        began = calendar.timegm((2026, 11, 6, 0, 0, 0))
        written = calendar.timegm((2026, 11, 12, 23, 59, 59))
        text, note = logtext.excerpt(log, log.size, cleaner(), 700_000, 500_000, began, written)
    finally:
        logtext.BACK = small
    assert b"'start'" not in text and "the start of the server was not found" in note


def test_odd_logs_are_no_trouble():
    for data in (b"", b"\n", b"\x00\xff" * 1000, b"\r" * 5000, b"non-default args: " * 1000, "é\n".encode("utf-16")):
        excerpt(data, head=100, tail=100)


def test_of_a_log_of_any_size_two_mebibytes_travel_at_most():
    # random letters, which compress least, in words too short to look like secrets
    letters = bytes(random.Random(4).choices(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ     ", k=9 << 20))
    lines = (b"(EngineCore pid=7) WARNING " + letters[at : at + 90] + b"\n" for at in range(0, len(letters), 90))
    text, note = excerpt(BOOT.format(1).encode() + b"".join(lines))
    sent = io.BytesIO()
    wire.Wire(sent, hide.Hider(), lambda: None).file("server.log", text)
    assert "were read" in note
    assert 900_000 < len(sent.getvalue()) < 2 << 20
