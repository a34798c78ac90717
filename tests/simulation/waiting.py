"""What Airflow does with waiting tasks, with faults.

This Airflow stores each change of a task at once, moves the waits of a dead triggerer to another one, ends
the triggers that no longer belong to a triggerer, and retries failed tasks.
"""

from __future__ import annotations

from random import Random
from typing import Final

from tests.kit.made_of import MadeOf
from tests.simulation.actors import AnyWorld, Process
from tests.simulation.subscriptions import KEYS, UNKEYED, WITH_TIMERS, WITHOUT_TIMERS
from tests.simulation.topics import ACTION, REGISTRY
from tests.simulation.waiters import Resumed, Task, Triggerer, Worker, keys_in_force

# A world has waiting tasks if seed % EVERY is TURN.
EVERY: Final = 4
TURN: Final = 1
ROUND_STEPS: Final = 400
CHANCES: Final[tuple[tuple[str, int], ...]] = (
    ("run", 50),
    ("into", 24),
    ("defer", 16),
    ("store", 16),
    ("work", 14),
    ("on", 30),
    ("sync", 7),
    ("reassign", 8),
    ("clear", 3),
    ("strip", 2),
    ("crash", 7),
    ("kill", 7),
    ("boot", 12),
    ("stop", 2),
    ("pause", 5),
    ("resume", 9),
    ("no answer", 5),
)
_NAMES, WEIGHTS = [name for name, _ in CHANCES], [weight for _, weight in CHANCES]


class Waiting:
    """The tasks, triggerers and workers of a world."""

    def __init__(self, world: AnyWorld, seed: int | str, made_of: MadeOf) -> None:
        self.world = world
        self.by_chance = True
        self.rng = rng = Random(f"waits {seed}")
        self.tasks = [self._task(n) for n in range(rng.choice((1, 2, 2, 3)))]
        self.triggerers = [
            Triggerer(n, world, rng.choice((0.0, 0.0, -90.0, 45.0)), made_of)
            for n in range(rng.choice((1, 2, 2, 3)))
        ]
        self.abandoned: list[Task] = []
        self.resumptions: list[Resumed] = []
        self.finished: list[tuple[Resumed, bool]] = []  # (resumption, whether it was acknowledged)
        self._triggers = 0
        for triggerer in self.triggerers:
            triggerer.boot()

    def _task(self, n: int) -> Task:
        rng = self.rng
        pool, key = rng.choice((WITHOUT_TIMERS, WITHOUT_TIMERS, WITH_TIMERS)), rng.choice(KEYS)
        if rng.random() < 0.2:
            return Task(f"w{n}", rng.choice(UNKEYED), None, 5_000)
        return Task(f"w{n}", rng.choice(pool), key, rng.choice((0, 150, 2_000, 5_000, 3_600_000)))

    def add(self) -> None:
        """One more task, which waits for what has not happened yet."""
        number = len(self.tasks) + len(self.abandoned)
        self.tasks.append(Task(f"w{number}", WITHOUT_TIMERS[1], KEYS[number % 2], 0))

    def abandon(self) -> str | None:
        """A wait whose trigger ends, and nobody knows its task any more. Returns its incarnation."""
        for triggerer in self._up():
            for number, (task, wait) in triggerer.open.items():
                if task.trigger == number and task.state == "deferred":
                    del triggerer.open[number]
                    triggerer.waits.close(wait)
                    self.tasks.remove(task)
                    self.abandoned.append(task)
                    self.world.say(f"{task.name} is gone, and {triggerer.name} goes on")
                    return task.registration.incarnation
        return None

    # -- the random phase

    def choose(self) -> tuple[str, int, int]:
        rng = self.rng
        return rng.choices(_NAMES, WEIGHTS)[0], rng.randrange(1 << 16), rng.randrange(1 << 16)

    def act(self, name: str, n: int, what: int) -> bool:
        """Carries out an action; False if it does not apply now."""
        return bool(getattr(self, "_do_" + name.replace(" ", "_"))(n, what))

    def _up(self) -> list[Triggerer]:
        return [triggerer for triggerer in self.triggerers if triggerer.state == "up"]

    def _in(self, *states: str) -> list[Task]:
        return [task for task in self.tasks if task.state in states]

    def _do_run(self, n: int, what: int) -> bool:
        up = self._up()
        if not up:
            return False
        self.world.cluster.now_ms += 20
        up[n % len(up)].run((1, 4, 8, 8, 16, 16, 32)[what % 7])
        return True

    def _do_into(self, n: int, what: int) -> bool:
        """A triggerer runs until just before or after a write, and stays there."""
        up = self._up()
        if not up:
            return False
        up[n % len(up)].run_into(what % 3)
        return True

    def _do_defer(self, n: int, what: int) -> bool:
        """A task runs until it waits."""
        tasks, up = self._in("new"), self._up()
        if not tasks or not up:
            return False
        task = tasks[n % len(tasks)]
        if task.since_ms is None:
            task.since_ms = max(0, self.world.cluster.now_ms - task.back_ms)
        task.state = "deferred"
        self._triggers += 1
        task.trigger = self._triggers
        self._assign(task, up[what % len(up)])
        return True

    def _assign(self, task: Task, triggerer: Triggerer) -> None:
        task.host = triggerer
        triggerer.take(task)
        incarnation = task.registration.incarnation[:6]
        self.world.say(f"{task.name} waits on {triggerer.name} for {incarnation}: {task.condition}")

    def _do_reassign(self, n: int, what: int) -> bool:
        """Airflow has not heard from the triggerer of a task, which is down or paused."""
        tasks, up = [t for t in self._in("deferred") if t.host and t.host.state != "up"], self._up()
        if not tasks or not up:
            return False
        self._assign(tasks[n % len(tasks)], up[what % len(up)])
        self.world.seen["wait that another triggerer took"] += 1
        return True

    def _do_store(self, n: int, _: int) -> bool:
        """Airflow stores a trigger's event and resumes its task, unless another trigger has resumed it."""
        yielding = [triggerer for triggerer in self._up() if triggerer.yielded]
        if not yielding:
            return False
        triggerer = yielding[n % len(yielding)]
        event = triggerer.yielded.popleft()
        task, wait = triggerer.open.pop(event.trigger, (None, None))
        if task is None or wait is None:
            return True  # its trigger was cancelled
        triggerer.waits.close(wait)
        if task.trigger != event.trigger or task.state != "deferred":
            self.world.seen["firing for a task that was resumed already"] += 1
            return True
        ends = tuple(log.end for log in self.world.cluster.topics[ACTION].logs)
        action, keys = event.firing
        incarnation = task.registration.incarnation
        task.resumed = Resumed(task.name, incarnation, action, ends, keys, event.known)
        self.resumptions.append(task.resumed)
        task.state = "scheduled"
        self.world.say(f"{task.name} is resumed with {action.firing.id[:6]}")
        self.world.seen["task resumed"] += 1
        return True

    def _do_sync(self, n: int, _: int) -> bool:
        """A triggerer ends the triggers that no longer belong to it (`EventTrigger.on_kill`)."""
        up = self._up()
        if not up:
            return False
        triggerer = up[n % len(up)]
        for number, (task, wait) in list(triggerer.open.items()):
            if task.trigger == number and task.state == "deferred" and task.host is triggerer:
                continue
            del triggerer.open[number]
            if task.state in ("new", "deferred"):
                triggerer.waits.close(wait)
            else:
                triggerer.waits.withdraw(wait)
                self.world.say(f"{triggerer.name} withdraws the wait of {task.name}")
                self.world.seen["wait withdrawn"] += 1
        return True

    def _do_work(self, n: int, _: int) -> bool:
        tasks = self._in("scheduled")
        if not tasks:
            return False
        task = tasks[n % len(tasks)]
        task.state, task.worker = "running", Worker(task, self.world, by_chance=self.by_chance)
        task.worker.boot()
        return True

    def _do_on(self, n: int, what: int) -> bool:
        """A worker continues."""
        tasks = self._in("running")
        if not tasks:
            return False
        task = tasks[n % len(tasks)]
        worker = task.worker
        assert worker is not None
        worker.run((0, 0, 1, 2, 3)[what % 5])
        if worker.state == "down":
            self._done(task)
        return True

    def _done(self, task: Task) -> None:
        assert task.worker is not None
        self.finished.append((task.worker.resumed, task.worker.acknowledged))
        task.state, task.worker = "done", None
        self.world.say(f"{task.name} is done")
        self.world.seen["task that waited is done"] += 1

    def _do_kill(self, n: int, what: int) -> bool:
        """A worker is killed; its task is tried again."""
        tasks = self._in("running")
        if not tasks:
            return False
        task = tasks[n % len(tasks)]
        assert task.worker is not None
        task.worker.run(what % 6)
        if task.worker.state == "down":
            self._done(task)
            return True
        self.world.say(f"{task.worker.name} is killed while it {task.worker.at}")
        task.worker.crash()
        task.state, task.worker = "new", None
        return True

    def _do_clear(self, n: int, _: int) -> bool:
        """A user clears a task: its next incarnation must not take an earlier firing."""
        task = self.tasks[n % len(self.tasks)]
        if task.since_ms is None:
            return False
        if task.worker is not None:
            task.worker.crash()
        task.state, task.worker, task.generation = "new", None, task.generation + 1
        self.world.say(f"{task.name} is cleared")
        self.world.seen["waiting task cleared"] += 1
        return True

    def _do_strip(self, n: int, _: int) -> bool:
        """Somebody removes the registration of a task that waits."""
        tasks = self._in("deferred")
        if not tasks:
            return False
        incarnation = tasks[n % len(tasks)].registration.incarnation
        keys = keys_in_force(self.world.cluster, incarnation, 1 << 30)
        for key in keys:
            offset, _ = self.world.cluster.append(REGISTRY, key, None)
            self.world.say(f"{key.decode()} is removed by hand at {REGISTRY}@{offset}")
        self.world.seen["wait whose registration was removed"] += bool(keys)
        return bool(keys)

    def _do_crash(self, n: int, what: int) -> bool:
        triggerer = self.triggerers[n % len(self.triggerers)]
        if triggerer.state == "up" and what % 4:
            triggerer.run_into(what // 4 % 3)
        if triggerer.state == "down":
            return False
        self.world.say(f"{triggerer.name} is killed while it {triggerer.at}")
        triggerer.crash()
        return True

    def _do_boot(self, n: int, _: int) -> bool:
        triggerer = self.triggerers[n % len(self.triggerers)]
        if triggerer.state != "down":
            return False
        self._boot(triggerer)
        return True

    def _boot(self, triggerer: Triggerer) -> None:
        self.world.say(f"{triggerer.name} boots")
        triggerer.boot()
        for task in self._in("deferred"):
            if task.host is triggerer:
                triggerer.take(task)

    def _do_stop(self, n: int, _: int) -> bool:
        up = self._up()
        if not up:
            return False
        self.world.say(f"{up[n % len(up)].name} is asked to stop")
        up[n % len(up)].stop()
        return True

    def _do_pause(self, n: int, _: int) -> bool:
        up = self._up()
        if not up:
            return False
        up[n % len(up)].state = "paused"
        self.world.say(f"{up[n % len(up)].name} is paused while it {up[n % len(up)].at}")
        return True

    def _do_resume(self, n: int, _: int) -> bool:
        paused = [triggerer for triggerer in self.triggerers if triggerer.state == "paused"]
        if not paused:
            return False
        paused[n % len(paused)].state = "up"
        self.world.say(f"{paused[n % len(paused)].name} is resumed")
        return True

    def _do_no_answer(self, n: int, what: int) -> bool:
        running = [task.worker for task in self._in("running") if task.worker is not None]
        asked: list[Process] = [*self._up(), *running]
        if not asked:
            return False
        asked[n % len(asked)].fail_next()
        return True

    # -- without faults

    def mend(self) -> None:
        """No more faults."""
        self.by_chance = False
        for triggerer in self.triggerers:
            triggerer.by_chance = False
            if triggerer.state == "paused":
                triggerer.state = "up"
        for task in self._in("running"):
            assert task.worker is not None
            task.worker.by_chance = False

    def go_round(self, *, boot: bool = True) -> None:
        """Each process continues, and Airflow does what is due."""
        for triggerer in self.triggerers:
            if triggerer.state == "down" and boot:
                self._boot(triggerer)
            if triggerer.state == "up":
                triggerer.run(ROUND_STEPS)
        if not self._up():
            return
        for n in range(len(self._up())):
            self._do_sync(n, 0)
        for action in (self._do_store, self._do_work, self._do_defer, self._do_reassign):
            while action(0, 0):
                pass
        for task in self._in("running"):
            while task.state == "running":
                self._do_on(self._in("running").index(task), 4)

    def facts(self) -> tuple[object, ...]:
        return tuple((task.state, task.trigger) for task in self.tasks)

    def finish(self) -> None:
        """End all processes."""
        workers = [task.worker for task in self.tasks if task.worker is not None]
        for process in (*self.triggerers, *workers):
            if process.state != "down":
                process.crash()
