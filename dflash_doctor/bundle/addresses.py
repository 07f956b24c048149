"""Addresses and numbers that lead to one machine or person: IP, MAC, mail, GPU ids, serial numbers.

Stand-ins keep the shape, since parsers know them by it: 192.0.2.0/24, 198.51.100.0/24 and 203.0.113.0/24 are set apart
for documents (RFC 5737), as is 2001:db8::/32 (RFC 3849). Loopback, 0.0.0.0 and multicast say nothing of a host and
stay. A version such as 12.8.4.1 looks like an address: it is one only where nothing before it speaks of a version.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable

from dflash_doctor.bundle.aliases import Aliases

V4 = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?!\.?\w)")
V6 = re.compile(r"(?<![\w:.])(?=[0-9a-fA-F]*:)[0-9a-fA-F:]{3,39}(?![\w:])")
NCCL_V6 = re.compile(r"(?<=\])([\w.-]{1,15}:)([0-9a-fA-F:]{3,39})(?=[%<])")  # [1]ib0:fe80::1%ib0<0>
MAC = re.compile(r"(?<![\w:])(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}(?![\w:])")
MAIL = re.compile(r"(?<![\w.+*-])[\w.+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}(?!\w)")
UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"
GPU = re.compile(rf"\bGPU-{UUID}")
MIG = re.compile(rf"\bMIG-{UUID}")
SERIAL = re.compile(r"(?i)(serial(?:[ _]?number)?[\"']?(?:\s{0,40}[:=]\s{0,4}|>)[\"']?)(?!N/A|null|0\b)(\w[\w-]{3,40})")
# what stands before a number of four parts that is a version
VERSION = re.compile(
    r"(?i)(?:(?:version|release|driver|firmware|bios|cudnn|cublas|nccl|cuda|nvshmem|==|\bv)\W{0,4}|(?P<dash>[-+@]))$"
)
BEFORE = 24  # characters looked at before it
DOCUMENTS = ("192.0.2", "198.51.100", "203.0.113")


def hidden(text: str, file: str, aliases: Aliases) -> str:
    """The text with stand-ins for all of these."""

    def put(pattern: re.Pattern[str], kind: str, make: Callable[[int], str], text: str) -> str:
        return pattern.sub(lambda m: aliases.of(kind, m.group(), file, make), text)

    text = put(MAIL, "mail address", lambda n: f"mail-{n}@example.org", text)
    text = put(MAC, "MAC address", lambda n: f"02:00:00:00:{n >> 8 & 255:02x}:{n & 255:02x}", text)
    text = put(GPU, "GPU id", lambda n: f"GPU-{n:08x}-0000-0000-0000-{n:012x}", text)
    text = put(MIG, "GPU id", lambda n: f"MIG-{n:08x}-0000-0000-0000-{n:012x}", text)
    text = SERIAL.sub(lambda m: m[1] + aliases.of("serial number", m[2], file, lambda n: f"serial-{n}"), text)
    if not file.startswith("packages"):
        text = V4.sub(lambda m: _v4(m, file, aliases), text)
    text = NCCL_V6.sub(lambda m: m[1] + _v6(m[2], file, aliases), text)
    return V6.sub(lambda m: _v6(m.group(), file, aliases), text)


def _v4(m: re.Match[str], file: str, aliases: Aliases) -> str:
    found = m.group()
    try:
        address = ipaddress.IPv4Address(found)
    except ValueError:  # 96.00.89.00 is no address
        return found
    if address.is_loopback or address.is_unspecified or address.is_multicast or found.startswith(("255.", "0.")):
        return found
    version = VERSION.search(m.string[max(m.start() - BEFORE, 0) : m.start()])
    if version is not None and not (version["dash"] and address.is_private):
        return found
    return aliases.of("IP address", found, file, _document)


def _document(n: int) -> str:
    block, last = divmod(n - 1, 254)
    return f"{DOCUMENTS[block]}.{last + 1}" if block < len(DOCUMENTS) else f"198.18.{n >> 8 & 255}.{n & 255}"


def _v6(found: str, file: str, aliases: Aliases) -> str:
    try:
        address = ipaddress.IPv6Address(found)
    except ValueError:  # 12:30:45 is a time, 0000:17:00 a place on a bus
        return found
    if address.is_loopback or address.is_unspecified or address.is_multicast:
        return found
    return aliases.of("IP address", found, file, lambda n: f"2001:db8::{n:x}")
