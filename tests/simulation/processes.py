"""What happens to a world's processes by chance: each may be killed, stopped or paused, and begins again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tests.simulation.actors import Process


class Processes:
    """The processes of a world.

    actions: {name: what happens by chance}; the first number chooses to which. False if it does not apply
    now.
    """

    def __init__(self, processes: Sequence[Process], say: Callable[[str], None]) -> None:
        self._processes, self._say = processes, say
        self.actions: Mapping[str, Callable[[int, int], bool]] = {
            "crash": self._crash,
            "boot": self._boot,
            "stop": self._stop,
            "pause": self._pause,
            "resume": self._resume,
            "no answer": self._no_answer,
        }

    def _chosen(self, n: int) -> Process:
        return self._processes[n % len(self._processes)]

    def _crash(self, n: int, _: int) -> bool:
        process = self._chosen(n)
        if process.state == "down":
            return False
        self._say(f"{process.name} is killed while it {process.at}")
        process.crash()
        return True

    def _boot(self, n: int, _: int) -> bool:
        process = self._chosen(n)
        if process.state != "down":
            return False
        self._say(f"{process.name} boots")
        process.boot()
        return True

    def _stop(self, n: int, _: int) -> bool:
        process = self._chosen(n)
        if process.state != "up":
            return False
        self._say(f"{process.name} is asked to stop")
        process.stop()
        return True

    def _pause(self, n: int, _: int) -> bool:
        process = self._chosen(n)
        if process.state != "up":
            return False
        self._say(f"{process.name} is paused while it {process.at}")
        process.state = "paused"
        return True

    def _resume(self, n: int, _: int) -> bool:
        process = self._chosen(n)
        if process.state != "paused":
            return False
        self._say(f"{process.name} is resumed")
        process.state = "up"
        return True

    def _no_answer(self, n: int, _: int) -> bool:
        process = self._chosen(n)
        if process.state == "down":
            return False
        process.fail_next()
        return True
