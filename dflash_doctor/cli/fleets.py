"""Many hosts looked at as `diagnose` looks at one: who, in which order, what is kept, what is taken up again."""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from datetime import time as clock_time
from pathlib import Path
from typing import cast

from dflash_doctor import baselines, collect, fleet, hosts, load
from dflash_doctor.cli.choosing import Named, named
from dflash_doctor.cli.diagnosing import judged, status
from dflash_doctor.cli.liveview import LiveView
from dflash_doctor.cli.looking import How, visited
from dflash_doctor.cli.streams import say
from dflash_doctor.fleet import Late, Pool, Visit, Wanted
from dflash_doctor.formats.baseline import from_snapshot
from dflash_doctor.formats.check import Checked, CheckFile, HostVerdict, sorted_by_gravity, worst
from dflash_doctor.history import Run, Store, Sweep, run_of, settled
from dflash_doctor.history.runs import UNREACHABLE
from dflash_doctor.model import Capture, Host, Refused, Unreadable
from dflash_doctor.report import as_json, words

BEFORE = 30  # earlier runs of a host that are asked what the last measured night said
ALIVE_S = 30.0  # how often a check says in the history that it is still at work


@dataclass
class Watching:
    """What a visit tells while it goes on (looking.Watched)."""

    visit: Visit

    def phase(self, text: str) -> None:
        """What is being done now."""
        self.visit.phase = text

    def load(self, p: load.Progress) -> None:
        """Where the load stands."""
        rate = f", {p.tok_s:.3g} tok/s" if p.tok_s else ""
        self.visit.phase = f"load: {p.phase} {p.done}/{p.total}{rate}"

    def opened(self, session: collect.AnySession) -> None:
        """What to close when it takes too long."""
        self.visit.hold(session)

    def note(self, text: str) -> None:
        """Beside so many hosts only the report is read: it names the engine that was looked at."""


class Fleet:
    """One check. Wrong names are Refused here, before any host is looked at."""

    def __init__(
        self,
        targets: Sequence[str],
        lists: Sequence[Path],
        groups: Sequence[str],
        how: How,
        baseline: str | None,
        kept: baselines.Store,
        history: Store | None,
        *,
        strict: bool = False,
    ) -> None:
        self.how, self.kept, self.history, self.strict = how, kept, history, strict
        self.label = ", ".join([*(str(p) for p in lists), *groups, *targets])[:200] or "hosts.yaml"
        self.wanted = _wanted(targets, lists, groups, how)
        if not self.wanted:
            raise Refused("the list names no host")
        self.hosts = {w.name: hosts.resolve(w.target, how.ssh_config, w.ssh) for w in self.wanted}
        if any(h.address == "-" for h in self.hosts.values()):
            raise Refused("a log on stdin is one host: `dflash-doctor diagnose -`")
        asked = {w.baseline or baseline for w in self.wanted} - {None}
        self.asked: dict[str | None, Named] = {name: named(name, kept) for name in asked if name}
        self.baseline = baseline
        self.unkept: list[Run] = []

    def look(self, *, at_once: int, deadline_s: float, afresh: bool = False) -> CheckFile:
        """Every host once; those that an interrupted check has already seen are not looked at again."""
        began, started = time.monotonic(), datetime.now(timezone.utc).isoformat(timespec="seconds")
        sweep = None
        done: dict[str, Checked] = {}
        if self.history is not None:
            how = {k: v for k, v in vars(self.how).items() if k != "accept_new_host_key"}
            sweep = self.history.begin(
                self.label, fleet.plan(self.wanted, how | {"baseline": self.baseline}), afresh=afresh
            )
            done = {r.host: self._again(r) for r in (self.history.done(sweep) if sweep.taken_up else ())}
        if done:
            say(f"an interrupted check is taken up: {len(done)} of {len(self.wanted)} hosts are done")
        left = [w for w in self.wanted if w.name not in done]
        bugs: list[BaseException] = []
        try:
            self._visit(left, done, sweep, bugs, at_once, deadline_s)
        except KeyboardInterrupt:
            if sweep is not None:
                say(f"{len(done)} of {len(self.wanted)} hosts are done; the same command goes on with the rest")
            raise
        self._end(sweep)
        for bug in bugs[:1]:
            traceback.print_exception(bug, file=sys.stderr)
        found = list(done.values())
        found = [h.model_copy(update={"beside": fleet.beside(h, found)}) for h in found]
        state = worst([*(h.status for h in found), *([2] if self.unkept else [])])
        return CheckFile(
            label=self.label, began_at=started, seconds=round(time.monotonic() - began, 2), status=state,
            hosts=sorted_by_gravity(found),
        )  # fmt: skip

    def _visit(
        self, left: Sequence[Wanted], done: dict[str, Checked], sweep: Sweep | None, bugs: list[BaseException],
        at_once: int, deadline_s: float,
    ) -> None:  # fmt: skip
        with LiveView(len(self.wanted)) as view:
            said_at = time.monotonic()

            def tick() -> None:
                nonlocal said_at
                view.draw([v for _, v in pool.visits.values()], list(done.values()))
                if sweep is not None and self.history is not None and time.monotonic() - said_at > ALIVE_S:
                    said_at = time.monotonic()
                    self.history.alive(sweep)

            pool = Pool(left, self._one, lambda w: w.name, at_once=at_once, deadline_s=deadline_s, tick=tick)
            for wanted, result, seconds in pool:
                if isinstance(result, Exception) and not isinstance(result, (Refused, Unreadable)):
                    bugs.append(result)
                run = result if isinstance(result, Run) else _nothing(wanted, result)
                done[wanted.name] = self._checked(wanted, run, seconds)
                self._keep(run, sweep)

    # -- one host -----------------------------------------------------------------------------------------------------

    def _one(self, wanted: Wanted, visit: Visit) -> Run:
        """Everything that `diagnose` does, and what the nights before say about it."""
        host, taken_at = self.hosts[wanted.name], time.time()
        how = _how(self.how, wanted, datetime.now().time())
        capture = _capture(host, how, Watching(visit))
        visit.phase = "reading what was said"
        found = judged(host, capture, self.asked.get(wanted.baseline or self.baseline), self.kept)
        if self.history is not None:
            found = settled(found, self.history.runs(wanted.name, BEFORE))
        snapshot = None
        if found.now.samples and self.history is not None:
            passport = baselines.passport(host=host.target, why=None, by="", tool="", taken_at=found.now.taken_at)
            snapshot = from_snapshot(found.now, "run", passport)
        return run_of(wanted.name, as_json.document(found), words.verdict(found), found.now, taken_at, snapshot)

    def _checked(self, wanted: Wanted, run: Run, seconds: float, *, taken_up: bool = False) -> Checked:
        return Checked(
            name=wanted.name, groups=list(wanted.groups), verdict=cast(HostVerdict, run.verdict),
            status=2 if run.report is None else status(run.report, strict=self.strict), says=run.says,
            seconds=round(seconds, 2), taken_up=taken_up, report=run.report,
        )  # fmt: skip

    def _again(self, run: Run) -> Checked:
        wanted = next(w for w in self.wanted if w.name == run.host)
        return self._checked(wanted, run, 0.0, taken_up=True)

    # -- what is kept -------------------------------------------------------------------------------------------------

    def _keep(self, run: Run, sweep: Sweep | None) -> None:
        if self.history is None:
            return
        try:
            self.history.record(run, sweep)
        except Refused as e:  # the looking goes on; at its end it is tried once more
            if not self.unkept:
                say(f"{e}; it is tried again at the end")
            self.unkept.append(run)

    def _end(self, sweep: Sweep | None) -> None:
        if self.history is None or sweep is None:
            return
        again, self.unkept = self.unkept, []
        for i, run in enumerate(again):
            try:
                self.history.record(run, sweep)
            except Refused as e:
                self.unkept = again[i:]
                say(f"{len(self.unkept)} of {len(self.wanted)} runs are not in the history: {e}")
                return  # the sweep stays open: the same command looks at those again
        self.history.end(sweep)


def _capture(host: Host, how: How, watching: Watching) -> Capture:
    if host.kind == "capture":
        return collect.load(host.address)
    return visited(host, how, watching)


def _how(how: How, wanted: Wanted, now: clock_time) -> How:
    """The command's words, and before them what the list says of this host."""
    said = {k: v for k in ("preset", "max_running", "engine_port", "log", "api", "api_key_env")
            if (v := getattr(wanted, k)) is not None}  # fmt: skip
    load = wanted.load if how.load is None else how.load
    return replace(how, **said, load=False if wanted.quiet(now) else load, ssh=wanted.ssh)


def _nothing(wanted: Wanted, result: Exception | Late) -> Run:
    """The run of a host that gave no report."""
    if isinstance(result, Late):
        says = f"given up after {result.seconds:.0f} s, while {result.phase or 'it was connected to'}"
    elif isinstance(result, (Refused, Unreadable)):
        says = str(result)
    else:
        says = f"dflash-doctor itself failed: {type(result).__name__}: {result}"
    return Run(wanted.name, time.time(), UNREACHABLE, says=says)


def _wanted(targets: Sequence[str], lists: Sequence[Path], groups: Sequence[str], how: How) -> tuple[Wanted, ...]:
    if not lists and not targets:
        base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
        usual = Path(base) / "dflash-doctor" / "hosts.yaml"
        if not usual.is_file():
            raise Refused(f"name the hosts: dflash-doctor check gpu1 gpu2, or --hosts hosts.yaml, or write {usual}")
        lists = [usual]
    listed = [w for path in lists for w in fleet.read(path)] if lists else [Wanted(t) for t in targets]
    patterns = any(fleet.PATTERN.search(w.target) for w in listed)
    aliases = hosts.aliases(how.ssh_config) if patterns else ()
    return fleet.wanted(listed, aliases, groups, targets if lists else ())
