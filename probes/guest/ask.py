"""How the host is asked: files, commands and addresses, each with a bound on time and size.

What cannot be had is `Failed` with the host's own words; the visit makes it a gap.
"""

import errno
import http.client
import os
import select
import signal
import socket
import ssl
import subprocess
import threading
import time

# the PATH of a command over ssh is short
MORE_PATH = (
    "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin:/usr/local/nvidia/bin:/usr/lib/wsl/lib"
    ":/run/current-system/sw/bin"
)


class Failed(Exception):
    """A question without an answer; the message is for the person who will fix it."""


def within(prefix, path, depth=0):
    """Where `path` lies under `prefix`, following links as a process whose root is `prefix` would."""
    done = prefix.rstrip("/")
    parts = [p for p in path.split("/") if p and p != "."]
    while parts:
        part = parts.pop(0)
        if part == "..":
            done = done[: done.rindex("/")] if len(done) > len(prefix.rstrip("/")) else done
            continue
        here = done + "/" + part
        try:
            target = os.readlink(here)
        except OSError:
            done = here
            continue
        depth += 1
        if depth > 40:
            raise Failed("%s: too many links" % path)
        if target.startswith("/"):
            done = prefix.rstrip("/")
        parts = [p for p in target.split("/") if p and p != "."] + parts
    return done or "/"


def words(e):
    """What the system said, without the path in front."""
    return e.strerror or str(e) if isinstance(e, OSError) else str(e)


class Ground:
    """The host under our feet: `root` is `/`, or a folder that stands for it."""

    def __init__(self, root="/", commands=None):
        self.root = root.rstrip("/")
        self.real = not self.root
        self._children = set()
        self._lock = threading.Lock()
        self._gone = False
        inherited = os.environ.get("PATH", "")
        if self.real:
            self._path = ":".join(p for p in (commands, inherited, MORE_PATH) if p)
            self._lookup = self._path
        else:
            self._lookup = commands or "%s/usr/local/bin:%s/usr/bin" % (self.root, self.root)
            self._path = ":".join(p for p in (self._lookup, inherited, MORE_PATH) if p)

    # -- files ----------------------------------------------------------------------------------------------------

    def path(self, path):
        """Where a path of the host is found by us."""
        return path if self.real else within(self.root, path)

    def link(self, path):
        """What a link says, or None."""
        try:
            return os.readlink(self.root + path)
        except OSError:
            return None

    def there(self, path):
        """Whether there is anything of this name, be it a link that leads nowhere."""
        return os.path.lexists(self.root + path)

    def open(self, path):
        """Open a file of the host for reading, without waiting for whoever may hold it."""
        try:
            fd = os.open(self.path(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as e:
            raise Failed("%s: %s" % (path, words(e)))
        return os.fdopen(fd, "rb", 0)

    def read(self, path, limit=1 << 20):
        """The first `limit` bytes of a file."""
        with self.open(path) as f:
            data = b""
            try:
                while len(data) < limit:
                    block = f.read(min(65536, limit - len(data)))
                    if not block:
                        break
                    data += block
            except OSError as e:
                raise Failed("%s: %s" % (path, words(e)))
        return data

    def text(self, path, default="", limit=1 << 20):
        """The same as stripped text; `default` when it cannot be had."""
        try:
            return self.read(path, limit).decode("utf-8", "replace").strip("\0\n ")
        except Failed:
            return default

    def names(self, path):
        """Names in a folder; empty when it cannot be listed."""
        try:
            return sorted(os.listdir(self.path(path)))
        except OSError:
            return []

    # -- commands -------------------------------------------------------------------------------------------------

    def find(self, command):
        """Where a command is, or None."""
        if command.startswith("/"):
            return self.path(command) if os.access(self.path(command), os.X_OK) else None
        for folder in self._lookup.split(":"):
            at = os.path.join(folder, command)
            if os.path.isfile(at) and os.access(at, os.X_OK):
                return at
        return None

    def run(self, argv, seconds=10.0, limit=4 << 20, accept=(0,), both=False):
        """What a command prints, at most `limit` bytes of it (with its stderr in between when `both`).

        Failed when it is missing, late or unhappy.
        """
        program = self.find(argv[0])
        if program is None:
            raise Failed("%s: not found on this host" % argv[0])
        status, out, err = self._ran([program] + list(argv[1:]), argv, seconds, limit, both)
        if status is not None and status not in accept:
            said = (err.strip() or out.strip()).decode("utf-8", "replace")[-600:]
            raise Failed("%s: %s" % (" ".join(argv), said or "exit status %d" % status))
        return out

    def _ran(self, command, argv, seconds, limit, both):
        env = dict(os.environ, PATH=self._path, LC_ALL="C", SYSTEMD_COLORS="0", SYSTEMD_PAGER="")
        with self._lock:
            if self._gone:
                raise Failed("%s: the visit is over" % argv[0])
            try:
                child = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT if both else subprocess.PIPE,
                    env=env,
                    start_new_session=True,
                )
            except OSError as e:
                raise Failed("%s: %s" % (argv[0], words(e)))
            self._children.add(child)
        said = {pipe: b"" for pipe in (child.stdout, child.stderr) if pipe is not None}
        end, cut, late = time.monotonic() + seconds, False, False
        try:
            waiting = list(said)
            while waiting and not cut:
                left = end - time.monotonic()
                ready = select.select(waiting, [], [], max(0.0, left))[0] if left > 0 else []
                if not ready:
                    late = True
                    break
                for pipe in ready:
                    block = os.read(pipe.fileno(), 65536)
                    if not block:
                        waiting.remove(pipe)
                    said[pipe] = (said[pipe] + block)[:limit]
                    cut = cut or len(said[pipe]) >= limit
            if not (cut or late):
                try:
                    child.wait(max(0.1, end - time.monotonic()))
                except subprocess.TimeoutExpired:
                    late = True
        finally:
            self._end(child)
        if late:
            raise Failed("%s: no answer within %g s" % (" ".join(argv), seconds))
        return (None if cut else child.returncode), said[child.stdout], said.get(child.stderr, b"")

    def _end(self, child):
        with self._lock:
            self._children.discard(child)
        if child.poll() is None:
            kill(child)
        child.stdout.close()
        if child.stderr is not None:
            child.stderr.close()
        try:
            child.wait(1.0)
        except subprocess.TimeoutExpired:
            pass  # stuck in the kernel; it ends when that does

    def hang_up(self):
        """End every command that still runs."""
        with self._lock:
            self._gone = True
            for child in self._children:
                kill(child)


def kill(child):
    """End a command with everything it started."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except OSError as e:
        if e.errno != errno.ESRCH:
            child.kill()


# -- addresses ----------------------------------------------------------------------------------------------------


class _Unix(http.client.HTTPConnection):
    """HTTP over a unix socket, for engines started with --uds."""

    def __init__(self, path, timeout):
        http.client.HTTPConnection.__init__(self, "localhost", timeout=timeout)
        self._unix_path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._unix_path)


def get(where, path, seconds=5.0, limit=8 << 20, key=None):
    """GET from an engine: (status, body). `where` is {"address", "port", "tls", "uds"}."""
    end = time.monotonic() + seconds
    if where.get("uds"):
        link, shown = _Unix(where["uds"], seconds), where["uds"] + path
    else:
        shown = "%s:%s%s" % (where["address"], where["port"], path)
        if where.get("tls"):
            # its own certificate is the engine's business: we are on its host
            context = ssl._create_unverified_context()
            link = http.client.HTTPSConnection(where["address"], where["port"], timeout=seconds, context=context)
        else:
            link = http.client.HTTPConnection(where["address"], where["port"], timeout=seconds)
    headers = {"Accept": "*/*", "User-Agent": "dflash-doctor"}
    if key:
        headers["Authorization"] = "Bearer " + key
    try:
        link.request("GET", path, headers=headers)
        answer = link.getresponse()
        body = b""
        while len(body) < limit:
            left = end - time.monotonic()
            if left <= 0:
                raise Failed("%s: no complete answer within %g s" % (shown, seconds))
            if link.sock is not None:
                link.sock.settimeout(left)
            block = answer.read1(65536) if hasattr(answer, "read1") else answer.read(65536)
            if not block:
                break
            body += block
        if len(body) >= limit:
            raise Failed("%s: an answer of more than %d MiB" % (shown, limit >> 20))
        return answer.status, body
    except socket.timeout:
        raise Failed("%s: no answer within %g s" % (shown, seconds))
    except (OSError, http.client.HTTPException, ValueError) as e:
        raise Failed("%s: %s" % (shown, words(e) or type(e).__name__))
    finally:
        link.close()
