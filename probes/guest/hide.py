"""Secrets are hidden on the host, before anything travels.

A value is hidden for its name (HF_TOKEN, --api-key, "password": …), for its own look (hf_…, sk-…, a bearer header,
user:password@ in an address), and everywhere once it was seen under such a name. Numbers and switches stay: what
SGLang calls #new-token is a count. All patterns are linear in the length of the text.
"""

import json
import re

MASK = "***"

ALWAYS = {
    "secret", "secrets", "password", "passwords", "passwd", "passphrase", "pwd", "credential", "credentials",
    "authorization", "apikey", "bearer", "cookie", "cookies",
}  # fmt: skip
LAST = {"key", "keys", "token", "auth"}  # HF_TOKEN, sort_key; not token_map, key_dim …
WITHIN = {"key", "token", "auth"}  # … unless their value is a text: AUTH_HEADER, TOKEN_FILE
# never a count
PAIRS = ("api_key", "access_key", "secret_key", "private_key", "hf_token", "hub_token", "auth_token", "access_token",
         "api_token", "db_pass")  # fmt: skip

SWITCH = re.compile(r"(?:|0|1|true|false|none|null|yes|no|on|off)\Z", re.I)
NUMBER = re.compile(r"[-+#]?\d[\d.,eE+/x-]*\s?(?:%|[kMGT]?i?B|m?s)?\Z")
WORD = re.compile(r"[a-z]+|[A-Z]+(?![a-z])|[A-Z][a-z]+")

# part of a name, then what may stand between a name and its value:
# api_key='x'   "api_key": "x"   HF_TOKEN=x   \"password\": \"x\"   --api-key x   '--api-key', 'x'
PART = re.compile(r"key|token(?!s\b|iz)|secret|pass|pwd|auth|credential|cookie|bearer|_pat", re.I)
REST = re.compile(
    r"""(?P<rest>[\w.-]{0,80})(?:\\{0,3}["']?\s{0,4}[=:]\s{0,4}\\{0,3}|(?P<flag>["']?,?\s{1,4})(?=[^\s-]))"""
)
VALUE = re.compile(
    r"""\[(?P<list>[^\]\n]{0,400})\]|'(?P<single>[^'\n]{0,1000})'|"(?P<double>[^"\n]{0,1000})\""""
    r"""|[\["']{0,3}(?P<bare>[^\s,;)}\]"'&]+)"""
)
NAME_CHARS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
NAME_RUN = re.compile(r"[\w.-]{0,80}")
LOOK = re.compile(
    r"authorization|bearer|hf_|sk-|eyJ|AKIA|gh[pousr]_|github_pat_|glpat-|xox|nvapi-|://[^/\s@]{1,500}@", re.I
)
LOOKS = (
    (re.compile(r"""(?i)\b(authorization\\{0,3}["']?\s{0,4}[:=]\s{0,4}\\{0,3}["']?)[^"'\n,}\\]{1,2000}"""), "\\1***"),
    (re.compile(r"(?i)\b(bearer\s{1,4})(?!\*)[A-Za-z0-9._~+/=-]{6,}"), "\\1***"),
    (re.compile(r"\bhf_(?=[a-z]{0,60}[A-Z0-9])[A-Za-z0-9]{8,}"), MASK),
    (re.compile(r"(?<![\w-])sk-[A-Za-z0-9_-]{6,}"), MASK),
    (re.compile(r"(?<![\w-])(?:gh[pousr]_|github_pat_|glpat-|xox[abprs]-|nvapi-)[A-Za-z0-9_-]{10,}"), MASK),
    (re.compile(r"\bAKIA[A-Z0-9]{12,}"), MASK),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*"), MASK),
    (re.compile(r"(://)[^/\s@'\"]{1,500}@"), "\\1***@"),
)


def looks(line):
    """A line without what looks like a secret whatever it is called."""
    for pattern, put in LOOKS:
        line = pattern.sub(put, line)
    return line


class Hider:
    """Hides by name, by look, and by having been seen; `keep` are names that only look secret."""

    def __init__(self, keep=()):
        self._keep = set(keep)
        self._seen = set()
        self._literal = None

    def secret(self, name, value, counts=False):
        """Whether the value under this name must not travel. `counts`: numbers under key/token names are counts."""
        plain = name.strip("-").replace("-", "_").replace(".", "_")
        words = [w.lower() for w in WORD.findall(plain)]
        if not words or plain.lower() in self._keep or SWITCH.match(value):
            return False
        if ALWAYS.intersection(words):
            return True
        if any(p in plain.lower() for p in PAIRS) or plain.lower().endswith("_pat"):
            return True
        number = bool(NUMBER.match(value))
        if words[-1] in LAST:
            return not (number and counts)
        # KeyError: 'x' is no secret
        return bool(WITHIN.intersection(words)) and "_" in plain and not number

    def learn(self, value):
        """Hide this value wherever it turns up, unless it is too plain a word for that."""
        value = value.strip("[]'\" ")
        if len(value) >= 16 or (len(value) >= 8 and re.search(r"\d", value)):
            self._seen.add(value)
            self._literal = re.compile("|".join(re.escape(v) for v in sorted(self._seen, key=len, reverse=True)))

    def text(self, text):
        """A text without its secrets; lines that smell of none are left as they are."""
        if self._literal is not None:
            text = self._literal.sub(MASK, text)
        if LOOK.search(text):
            text = "\n".join(looks(line) if LOOK.search(line) else line for line in text.split("\n"))
        if not PART.search(text):
            return text
        return "\n".join(self._line(line) if PART.search(line) else line for line in text.split("\n"))

    def _line(self, line):
        out, done, looked = [], 0, 0
        for hit in PART.finditer(line):
            start = hit.start()
            if start < looked:
                continue
            while start > max(0, hit.start() - 80) and line[start - 1] in NAME_CHARS:
                start -= 1
            rest = REST.match(line, hit.start())
            looked = NAME_RUN.match(line, hit.end()).end()
            if rest is None or (rest.group("flag") is not None and line[start] != "-"):
                continue
            value = VALUE.match(line, rest.end())
            if value is None:
                continue
            bare = value.group(value.lastgroup).strip("'\" ")
            if MASK in bare or not self.secret(line[start : rest.end("rest")], bare, counts=True):
                continue
            out += [line[done : value.start(value.lastgroup)], MASK]
            done = looked = value.end(value.lastgroup)
        return "".join(out) + line[done:]

    def json(self, text):
        """A JSON document without its secrets; text that is none is treated as text."""
        try:
            data = json.loads(text)
        except ValueError:
            return self.text(text)
        return json.dumps(self.tree(data), ensure_ascii=False)

    def tree(self, data, name="", depth=0):
        """The same for parsed JSON."""
        if depth > 60:
            return MASK
        if isinstance(data, dict):
            return {k: self.tree(v, k, depth + 1) for k, v in data.items()}
        if isinstance(data, list):
            return [self.tree(v, name, depth + 1) for v in data]
        if isinstance(data, str):
            return MASK if data and name and self.secret(name, data, counts=True) else self.text(data)
        return data

    def argv(self, argv):
        """A command line without its secrets; what is hidden is learnt."""
        out, flag, taken = [], None, 0
        for word in argv:
            if flag is not None and not word.startswith("-") and (taken == 0 or "/" not in word):
                taken += 1  # some flags take several values; a path after the first is the model
                if self.secret(flag, word):
                    self.learn(word)
                    out.append(MASK)
                    continue
            else:
                flag = None
            name, eq, value = word.partition("=")
            if re.match(r"-{0,2}[A-Za-z_][\w.-]*\Z", name):
                if eq and self.secret(name, value):
                    self.learn(value)
                    out.append(name + "=" + MASK)
                    continue
                if not eq and name.startswith("-"):
                    flag, taken = name, 0
            out.append(self.text(word))
        return out

    def environ(self, pairs, allowed):
        """`NAME=value` lines of the names that may be looked at; what is hidden is learnt."""
        patterns = [re.compile("(?:%s)\\Z" % "|".join(p.replace("*", ".*") for p in allowed))]
        out = []
        for name, value in pairs:
            hidden = self.secret(name, value)
            if hidden:
                self.learn(value)
            if any(p.match(name) for p in patterns):
                out.append("%s=%s" % (name, MASK if hidden else self.text(value)))
        return out
