"""GPU counters: NVML when it can be loaded, else nvidia-smi; one look before, many while the load runs, one after."""

import threading
import time

from guest import beyond, nvml, smi
from guest.ask import Failed

RARE = 5.0  # seconds between two looks at what takes many questions, links above all
MOST = 240  # samples of one visit; from then on every second one is left out


class Gpus:
    """Whatever answers for the GPUs of this host. Failed when nothing does, with both reasons."""

    def __init__(self, ground, source, name_of, question):
        why = []
        self._beyond = None
        if ground.real:
            try:
                self._reader = nvml.Nvml(nvml.load(source), name_of)
                self._beyond = beyond.Beyond(self._reader)
                return
            except Failed as e:
                why.append(str(e))
        try:
            self._reader = smi.Smi(ground, question["seconds"], question["once"], question["live"])
        except Failed as e:
            raise Failed("; ".join(why + [str(e)]))

    def about(self):
        """What does not change: driver, names, limits of the cards."""
        reader = self._reader
        told = {
            "driver_version": reader.driver_version,
            "cuda_version": reader.cuda_version,
            "source": reader.source,
            "mig_devices": (self._beyond or reader).slices(),
        }
        return dict({k: v for k, v in told.items() if v}, gpus=reader.fixed)

    @property
    def source(self):
        return self._reader.source

    def sample(self, load, rare=False):
        """One reading of every card, stamped with the host's clock; `rare` asks for what takes many questions too."""
        taken = {"t": round(time.time(), 3), "load": load, "gpus": self._reader.live(rare)}
        if rare and self._beyond is not None:
            values, shares = self._beyond.values(), self._beyond.shares()
            for card in taken["gpus"]:
                card["nvml"] = values[card["index"]]
                for process in card["processes"] if isinstance(card["processes"], list) else ():
                    share = shares.get(card["index"], {}).get(process["pid"])
                    if share is not None:
                        process["sm"] = share
        return taken


class Sampler:
    """Samples in the background between load-begin and load-end."""

    def __init__(self, gpus, wire, hertz):
        self._gpus, self._wire = gpus, wire
        self._every = 1.0 / max(0.1, min(10.0, hertz))
        self._taken = 0
        self._halt = threading.Event()
        self._thread = None

    def begin(self):
        """Start sampling; nothing happens when it already does."""
        if self._thread is None:
            self._halt.clear()
            self._thread = threading.Thread(target=self._run)
            self._thread.daemon = True
            self._thread.start()

    def end(self):
        """Stop sampling; Failed when the driver does not let go."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._halt.set()
        thread.join(5.0)
        if thread.is_alive():
            raise Failed("%s: no answer within 5 s" % self._gpus.source)

    def _run(self):
        due = time.monotonic()
        rare = due + RARE / 2  # not at once: links and clocks need a moment to wake
        while not self._halt.is_set():
            now_rare = due >= rare
            if now_rare:
                rare = due + RARE
            try:
                self._wire.say({"sample": self._gpus.sample(True, now_rare)})
            except Failed as e:
                self._wire.gap("gpu under load", str(e))
                return
            self._taken += 1
            if self._taken % MOST == 0:
                self._every *= 2
            due = max(due + self._every, time.monotonic())
            self._halt.wait(due - time.monotonic())
