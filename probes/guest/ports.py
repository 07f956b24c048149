"""Which port a process listens on, in whatever network namespace it lives.

    sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
     0: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 38521 ...

(/proc/PID/net/tcp; state 0A is LISTEN, the inode is that of `socket:[38521]` behind one of the process's descriptors)
"""

import re
import socket
import struct

LISTEN = "0A"


def listening(ground, pid):
    """{inode: (address, port)} of everything that listens in the namespace of this process."""
    found = {}
    for table in ("tcp", "tcp6"):
        for line in ground.text("/proc/%s/net/%s" % (pid, table), limit=4 << 20).splitlines()[1:]:
            cells = line.split()
            if len(cells) < 10 or cells[3] != LISTEN:
                continue
            host, _, port = cells[1].partition(":")
            try:
                found[cells[9]] = (address(host), int(port, 16))
            except (ValueError, struct.error):
                continue
    return found


def address(text):
    """`0100007F` -> 127.0.0.1; four little-endian words for IPv6."""
    words = [struct.pack("<I", int(text[i : i + 8], 16)) for i in range(0, len(text), 8)]
    family = socket.AF_INET if len(words) == 1 else socket.AF_INET6
    return socket.inet_ntop(family, b"".join(words))


def sockets(ground, pid):
    """Inodes of the sockets a process holds; empty when we may not look."""
    found = set()
    for fd in ground.names("/proc/%s/fd" % pid):
        match = re.match(r"socket:\[(\d+)\]", ground.link("/proc/%s/fd/%s" % (pid, fd)) or "")
        if match:
            found.add(match.group(1))
    return found


def reachable(host):
    """The address to ask when a server listens on `host`."""
    return {"0.0.0.0": "127.0.0.1", "::": "127.0.0.1"}.get(host, host)


def own_addresses(ground, pid):
    """IPv4 addresses of a process's network namespace, loopback left out: a container's own address.

    |-- 172.17.0.2
       /32 host LOCAL
    """
    found, last = [], None
    for line in ground.text("/proc/%s/net/fib_trie" % pid).splitlines():
        match = re.match(r"[ |+-]*\|-- ([\d.]+)$", line)
        if match:
            last = match.group(1)
        elif "host LOCAL" in line and last and not last.startswith("127.") and last not in found:
            found.append(last)
    return found
