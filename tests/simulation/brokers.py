"""What happens at a world's brokers by chance, and how they end what belongs to processes that are gone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from tests.kit.bus import SimulatedBus
from tests.simulation.actors import AnyWorld


class Client(Protocol):
    """A process of a world, which may have a bus now."""

    bus: SimulatedBus | None


class Brokers:
    """The brokers of a world, whose group has these clients.

    excluded: called with the client of a member, dead or not, before its session ends by chance.
    actions: {name: what happens by chance}; the two numbers choose to what. False if it does not apply now.
    """

    def __init__(
        self,
        world: AnyWorld,
        clients: Sequence[Client],
        excluded: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._cluster, self._seen, self._say = world.cluster, world.seen, world.say
        self._clients, self._excluded = clients, excluded
        self.actions: Mapping[str, Callable[[int, int], bool]] = {
            "mark": self._mark,
            "rebalance": self._rebalance,
            "kick": self._kick,
            "late end": self._end_late,
            "time out": self._time_out,
        }

    def mark_all(self) -> None:
        for transaction, target in self._cluster.unmarked():
            self._cluster.mark(transaction, target)

    def end_the_dead(self) -> bool:
        """Ends sessions and transactions of those that are gone. Returns whether a transaction timed out."""
        for member in self.dead_members():
            self._say(f"the session of {member} is over")
            self._cluster.leave(member)
        overdue = self._cluster.overdue()
        for transaction in overdue:
            self._say(f"{transaction} has timed out")
            self._cluster.time_out(transaction)
        return bool(overdue)

    def dead_members(self) -> list[str]:
        """Members whose process, or whose bus, has ended."""
        names = {client.bus.transactional_id for client in self._clients if client.bus is not None}
        return [member.id for member in self._cluster.group.members.values() if member.client not in names]

    def _mark(self, n: int, few: int) -> bool:
        found = self._cluster.unmarked()
        if not found:
            return False
        transaction, target = found[n % len(found)]
        for each in (target,) if few % 4 == 0 else tuple(transaction.unmarked):
            self._cluster.mark(transaction, each)
            place = each.tp if each else "the offsets"
            self._say(f"marker of {transaction} in {place}: {transaction.decision}")
        return True

    def _rebalance(self, _: int, __: int) -> bool:
        group = self._cluster.group
        if group.preparing or not group.members:
            return False
        self._say("a rebalance begins")
        self._cluster.rebalance()
        return True

    def _kick(self, n: int, _: int) -> bool:
        """The session of a member is over, dead or not."""
        members = [*self._cluster.group.members]
        if not members:
            return False
        dead = [member for member in self.dead_members() if n % 4]
        member = (dead or members)[n // 4 % len(dead or members)]
        self._say(f"the session of {member} is over")
        self._excluded(self._cluster.group.members[member].client)
        self._cluster.leave(member)
        return True

    def _end_late(self, n: int, lost: int) -> bool:
        found = self._cluster.in_flight
        if not found:
            return False
        request = found[n % len(found)]
        if lost % 4 == 0:
            found.remove(request)
            return True
        decided = self._cluster.end_late(request)
        self._say(f"late EndTxn of {request.transaction}: {'decides' if decided else 'changes nothing'}")
        self._seen["late EndTxn that decided"] += decided
        return True

    def _time_out(self, n: int, _: int) -> bool:
        found = self._cluster.overdue()
        if not found:
            return False
        transaction = found[n % len(found)]
        self._say(f"{transaction} has timed out")
        self._seen["transaction timeout"] += 1
        self._cluster.time_out(transaction)
        return True
