"""How answers travel: one JSON object a line, long texts in pieces, and nothing leaves without passing the hider."""

import base64
import json
import threading

try:
    import zlib
except ImportError:  # a Python built without it: texts travel as they are
    zlib = None

PIECE = 256 << 10  # characters of text in one line
SMALL = 2048  # below this, compressing is not worth it


class Wire:
    """The one way out. `gone` is called when nobody listens any more."""

    def __init__(self, stream, hider, gone):
        self._stream = stream
        self._hider = hider
        self._gone = gone
        self._lock = threading.Lock()
        self._shut = False

    def say(self, answer):
        """One line; the caller vouches that no host text is in it."""
        line = json.dumps(answer, ensure_ascii=True).encode("ascii") + b"\n"
        with self._lock:
            if self._shut:
                return
            try:
                self._stream.write(line)
                self._stream.flush()
            except (OSError, ValueError):
                self._shut = True
                self._gone()

    def file(self, name, data, more=False, plain=False):
        """The text of one file of the capture; `more` goes on where it stopped, `plain` was hidden word by word."""
        text = data.decode("utf-8", "replace") if isinstance(data, bytes) else data
        if not plain:
            text = self._hider.json(text) if name.endswith(".json") and not more else self._hider.text(text)
        pieces = [text[i : i + PIECE] for i in range(0, len(text), PIECE)] or [""]
        for i, piece in enumerate(pieces):
            answer = {"file": name}
            if i == 0 and not more:
                answer["new"] = True
            if zlib is not None and len(piece) > SMALL:
                packed = zlib.compress(piece.encode("utf-8", "replace"), 6)
                answer["z"] = base64.b64encode(packed).decode("ascii")
            else:
                answer["data"] = piece
            self.say(answer)

    def gap(self, what, why):
        """Something that could not be seen."""
        self.say({"gap": what, "why": self._hider.text(why)})

    def note(self, text):
        """Something for people."""
        self.say({"note": self._hider.text(text)})

    def shut(self):
        """Say nothing from now on: threads that come late have nobody to tell."""
        with self._lock:
            self._shut = True
