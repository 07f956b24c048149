"""One visit: finds the engine, asks every question at once, then waits for load-begin, load-end and stop."""

import os
import queue
import re
import sys
import threading
import time

from guest import ask, engines, gpu, hide, logs, machine, model, wire
from guest.ask import Failed

LINGER = 1800.0  # without a word from the client for so long, it is gone
SETTLE = 1.0  # CPU time is measured over at least this


class Visit:
    """Everything between hello and goodbye."""

    def __init__(self, questions, options, pynvml):
        root = options.get("root") or os.environ.get("DFLASH_DOCTOR_ROOT") or "/"
        commands = options.get("commands") or os.environ.get("DFLASH_DOCTOR_COMMANDS")
        self.ground = ask.Ground(root, commands)
        self.hider = hide.Hider(questions.get("keep") or [])
        self.wire = wire.Wire(sys.stdout.buffer, self.hider, self.hang_up)
        self.questions, self.options, self.pynvml = questions, options, pynvml
        self._said = queue.Queue()
        self.engine = self.gpus = self.sampler = self.machine = None
        self.found, self.environ, self.everyone, self._gpu_of = [], [], {}, {}
        self._gpus_known = threading.Event()

    def put(self, command):
        """A command of the client, from the thread that listens."""
        self._said.put(command)

    def hang_up(self):
        """The client is gone: end what we started, now."""
        self.ground.hang_up()
        os._exit(0)

    def run(self):
        """The whole visit; returns the exit status."""
        try:
            os.nice(5)  # we read more gently than the load we bring
        except OSError:
            pass
        version = "%d.%d.%d" % sys.version_info[:3]
        self.wire.say({"hello": {"protocol": 1, "python": version, "pid": os.getpid(), "clock": time.time()}})
        self.find_engine()
        self.machine = machine.Machine(self.ground, self.engine, self.everyone)
        self.look()
        self.wire.say({"done": "look"})
        while True:
            try:
                command = self._said.get(timeout=float(self.options.get("linger") or LINGER))
            except queue.Empty:
                command = "stop"
            self.guarded(
                command, {"load-begin": self.load_begin, "load-end": self.load_end, "stop": self.stop}[command]
            )
            self.wire.say({"done": command})
            if command == "stop":
                self.ground.hang_up()
                return 0

    def guarded(self, what, work):
        """Run one piece of work; whatever the host does to it becomes a gap."""
        try:
            work()
        except Failed as e:
            self.wire.gap(what, str(e))
        except Exception as e:  # an odd host must not cost the other answers
            at = sys.exc_info()[2]
            while at.tb_next is not None:
                at = at.tb_next
            where = "%s:%d" % (at.tb_frame.f_code.co_filename, at.tb_lineno)
            self.wire.gap(what, "the collector stumbled: %s: %s (%s)" % (type(e).__name__, e, where))

    # -- who serves here ------------------------------------------------------------------------------------------

    def find_engine(self):
        """The engine to look at; all of them are reported."""
        self.found, self.everyone = engines.find(self.ground)
        self.engine, why = engines.choose(self.found, self.options.get("engine_port"))
        shown = []
        for e in self.found:
            row = {"engine": e.name, "pid": e.pid, "port": e.port, "address": e.address, "listens": e.listens,
                   "tls": e.tls, "uds": e.uds, "command": self.hider.argv(e.argv)[:200], "processes": 1 + len(e.family),
                   "container": e.container, "started": e.started, "chosen": e is self.engine}  # fmt: skip
            shown.append({k: v for k, v in row.items() if v is not None})
        self.wire.say({"engines": shown})
        if why is not None:
            self.wire.gap("engine", why)
        elif self.engine is None:
            stray = [p.name for p in self.everyone.values() if p.title]
            if stray:
                self.wire.gap("engine", "%s runs without its API server" % ", ".join(sorted(set(stray))[:4]))
            else:
                self.wire.gap("engine", "no vLLM or SGLang server among %d processes" % len(self.everyone))
        elif self.engine.listens is False:
            self.wire.gap("engine", "%s (pid %d) does not listen on port %s: still starting, or failed" % (
                self.engine.name, self.engine.pid, self.engine.port))  # fmt: skip

    def pairs(self):
        """(name, value) of the engine's environment; read once."""
        if not self.environ:
            raw = self.ground.read("/proc/%d/environ" % self.engine.pid, 1 << 20)
            parts = raw.split(b"\0" if b"\0" in raw else b"\n")
            texts = [p.decode("utf-8", "replace") for p in parts]
            self.environ = [t.partition("=")[::2] for t in texts if "=" in t]
        return self.environ

    def env(self):
        """The same, empty when it cannot be read."""
        try:
            return self.pairs()
        except Failed:
            return []

    # -- asking -------------------------------------------------------------------------------------------------------

    def look(self):
        """Every question in a thread of its own, each with its deadline."""
        if self.engine is not None:
            # what is hidden in the environment is hidden everywhere from here on
            self.hider.environ(self.env(), [])
        threads, begun = [], time.monotonic()
        for question in self.questions["questions"]:
            if self.engine is None and self.about_engine(question):
                continue
            if self.engine is not None and self.engine.listens is False and question.get("url"):
                continue  # that nobody listens there is said already
            if question.get("only") and question["only"] != self.engine.name:
                continue
            state = {"late": False, "waits": False}
            work = threading.Thread(target=self.ask_one, args=(question, state))
            work.daemon = True
            work.start()
            threads.append((question, state, work))
        overall = float(self.options.get("deadline") or 45.0)
        for question, state, work in threads:
            # a moment longer than the question's own bound, so that it can say better what was late
            limit = min(question["seconds"] + 0.5, overall)
            work.join(max(0.0, begun + limit - time.monotonic()))
            if work.is_alive():
                state["late"] = True
                if not state["waits"]:  # else what it waits for has its own gap
                    self.wire.gap(question["name"], "no answer within %g s" % min(question["seconds"], overall))

    @staticmethod
    def about_engine(question):
        """Whether a question makes sense only when an engine runs."""
        return bool(question.get("url") or question.get("only")) or question.get("builtin") in (
            "cmdline", "environ", "nccl_log", "packages", "model_config", "draft_config", "launch_config",
        )  # fmt: skip

    def ask_one(self, question, state):
        """One answer, or one gap; nothing when it comes too late."""

        def work():
            kind = question.get("builtin")
            if question.get("needs") == "gpu":
                state["waits"] = True
                known = self._gpus_known.wait(question["seconds"])
                state["waits"] = False
                if not (known and self.gpus):
                    return
            if kind:
                answers = getattr(self, "ask_" + kind)(question)
            elif question.get("url"):
                answers = self.ask_url(question)
            elif question.get("run"):
                answers = [(question["file"], self.ask_run(question["run"], question) + self.behind(question))]
            else:
                pid = self.engine.pid if self.engine else 0
                path = question["read"].replace("{pid}", str(pid))
                answers = [(question["file"], self.ground.read(path, question.get("max") or 1 << 20))]
            if not state["late"]:
                for name, data in answers:
                    self.wire.file(name, data, plain=name in ("cmdline", "environ"))

        self.guarded(question["name"], work)

    def ask_run(self, argv, question):
        accept = tuple(question.get("accept") or (0,))
        out = self.ground.run(argv, question["seconds"], question.get("max") or 4 << 20, accept)
        if question.get("shows") and question["shows"].encode("utf-8") not in out:
            raise Failed("%s: %s" % (" ".join(argv), out.decode("utf-8", "replace").strip()[:600] or "nothing"))
        if question.get("keep"):
            keep = re.compile(question["keep"].encode("utf-8"))
            lines = out.splitlines(True)
            out = b"".join(line for line in lines if keep.search(line[:4096]))
            if not out:
                return "# none of %d lines is about what was asked for\n" % len(lines)
        tail = question.get("tail")
        return out[-tail:][out[-tail:].find(b"\n") + 1 :] if tail and len(out) > tail else out

    def behind(self, question):
        """What is written behind the first command's answer; missing, it costs that one nothing."""
        out = b""
        for argv in question.get("also") or ():
            try:
                out += b"\n" + self.ask_run(argv, question)
            except Failed as e:
                self.wire.gap(question["name"], str(e))
        return out

    def ask_url(self, question):
        paths = question["url"] if isinstance(question["url"], list) else [question["url"]]
        said = []
        for path in paths:
            status, body = ask.get(self.engine.where(), path, question["seconds"], key=self.key())
            if status == 200:
                return [(question["file"], body)]
            said.append("GET %s on port %s: HTTP %d" % (path, self.engine.port, status))
            if status in (401, 403):
                said[-1] += " (the server wants an API key)"
            if question.get("accept_missing") and status in (404, 405):
                return []
        raise Failed("; ".join(said))

    def key(self):
        """The API key, as given by the client or known to the engine itself; used here, never sent."""
        given = self.options.get("api_key") or engines.flag(self.engine.argv, "--api-key")
        return given or dict(self.env()).get("VLLM_API_KEY")

    # -- the builtin questions ----------------------------------------------------------------------------------------

    def ask_cmdline(self, question):
        return [("cmdline", "\0".join(self.hider.argv(self.engine.argv)) + "\0")]

    def ask_environ(self, question):
        lines = self.hider.environ(self.pairs(), self.questions["environ"])
        return [("environ", "".join(line + "\n" for line in sorted(lines)))]

    def ask_log(self, question):
        # several commands may be needed one after the other
        log = logs.Log(self.ground, self.questions["log"], question["seconds"] * 0.4)
        if self.options.get("log"):
            found = [("server.log",) + log.of_file(self.options["log"], self.options["log"])]
        elif self.engine is not None:
            found = logs.of_engine(log, self.engine, self.everyone)
        elif self.found:
            return []  # others serve here, the one that was asked for does not: that is said already
        else:
            dead = logs.of_dead(log, self.hider, self.questions["environ"])
            self.wire.gap("engine", "%s does not run; its launch line and its last log were taken" % dead[0])
            found = dead[1]
        for note in dict.fromkeys(note for _, _, note in found if note):
            self.wire.note(note)
        return [(name, text) for name, text, _ in found]

    def ask_nccl_log(self, question):
        log = logs.Log(self.ground, self.questions["log"], question["seconds"])
        return [(name, text) for name, text, _ in logs.nccl(log, self.engine, self.env())]

    def ask_metrics(self, question, more=False):
        status, body = ask.get(self.engine.where(), question["url"], question["seconds"], key=self.key())
        if status != 200:
            hint = " (SGLang answers it with --enable-metrics)" if self.engine.name == "sglang" else ""
            raise Failed("GET %s on port %s: HTTP %d%s" % (question["url"], self.engine.port, status, hint))
        now = time.time()
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + ".%03dZ" % (now % 1 * 1000)
        text = "# scrape %s\n%s\n" % (stamp, body.decode("utf-8", "replace").rstrip("\n"))
        if more:
            self.wire.file(question["file"], text, more=True)
            return []
        return [(question["file"], text)]

    def ask_packages(self, question):
        return [(question["file"], model.packages(self.ground, self.engine, self.env()))]

    def ask_model_config(self, question):
        named = model.target_path(self.engine)
        if named is None:
            raise Failed("the command line names no model")
        return [(question["file"], model.config(self.ground, self.engine, named, self.env()))]

    def ask_draft_config(self, question):
        named = model.draft_path(self.engine)
        return [(question["file"], model.config(self.ground, self.engine, named, self.env()))] if named else []

    def ask_launch_config(self, question):
        named = engines.flag(self.engine.argv, "--config")
        return [(question["file"], self.ground.read(self.engine.inside(named), 1 << 18))] if named else []

    def ask_gpu(self, question):
        def name_of(pid):
            known = self.everyone.get(pid) or engines.Process(self.ground, pid)
            return known.name or "?"

        try:
            self.gpus = gpu.Gpus(self.ground, self.pynvml, name_of, question)
            self.sampler = gpu.Sampler(self.gpus, self.wire, float(self.options.get("hertz") or 2.0))
            self.wire.say({"gpus": self.gpus.about()})
            self.sample(False)
        finally:
            self._gpus_known.set()
        return []

    def sample(self, load):
        """One reading outside of the sampler, links included."""
        taken = self.gpus.sample(load, rare=True)
        for card in taken["gpus"]:
            processes = card.get("processes")
            for process in processes if isinstance(processes, list) else ():
                self._gpu_of[process["pid"]] = card["index"]
        self.wire.say({"sample": taken})

    def ask_smi_xml(self, question):
        if self.gpus.source == "nvml":
            return []
        return [(question["file"], self.ask_run(["nvidia-smi", "-q", "-x"], question))]

    def ask_kernel_log(self, question):
        why = []
        for argv in (question["run"], question["otherwise"]):
            try:
                return [(question["file"], self.ask_run(argv, question))]
            except Failed as e:
                why.append(str(e))
        raise Failed("; ".join(why))

    def ask_host(self, question):
        time.sleep(SETTLE)
        self._gpus_known.wait(2.0)
        return [(question["file"], wire.json.dumps(self.machine.facts(self._gpu_of)))]

    # -- while the load runs ------------------------------------------------------------------------------------------

    def question(self, builtin):
        return next(q for q in self.questions["questions"] if q.get("builtin") == builtin)

    def scrape(self):
        """One more section of metrics.prom."""
        if self.engine is not None and self.engine.listens is not False:
            self.guarded("metrics", lambda: self.ask_metrics(self.question("metrics"), more=True))

    def load_begin(self):
        """The load is about to start."""
        self.scrape()
        self.machine.begin()
        if self.sampler is not None:
            self.sampler.begin()

    def load_end(self):
        """The load has ended."""
        if self.machine.seconds() >= 0.5:  # else what was measured before the load is better
            self.wire.file(self.question("host")["file"], wire.json.dumps(self.machine.facts(self._gpu_of)))
        self.scrape()
        if self.sampler is not None:
            self.sampler.end()
            self.sample(False)

    def stop(self):
        """Goodbye."""
        if self.sampler is not None:
            self.sampler.end()
