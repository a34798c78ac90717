"""Keeps firings that were delivered or given up until their acknowledgements are committed."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from ..bus import Committed, Output, Record, TopicPartition
from ..errors import TransactionAborted, UnreachableError
from ..log import log
from ..protocol.outputs import Outputs
from ..records import ActionRecord, decode_json, encode_json
from ..records.firing_fit import fit_action
from ..records.sizes import MAX_FIRING_BYTES
from ..records.versions import VERSION
from .answers import Answer
from .context import DelivererContext
from .firings import OpenFiring
from .ownership import DelivererOwnership
from .partition import DELIVERER_HEADER, ActionPartition

OFFSETS_EVERY_S: Final = 1.0
REFUSED_EVERY_S: Final = 5.0  # between two tries of a dead letter or reply that the brokers refused
_FIRED, _ACKED = b',"state":"fired","firing":{', b',"state":"acked","firing":{'
# Headers of dead letters: where the firing was sent, the status, and the first bytes of the answer's body in
# base64.
ERROR_DESTINATION: Final = "interlock_error_destination"
ERROR_CODE: Final = "interlock_error_code"
ERROR_DATA: Final = "interlock_error_data"
# How long one pass writes refused records one by one. All other firings wait meanwhile.
ALONE_S: Final = 0.1
# The most bytes of a transaction: more might not be written before the client's timeout.
MOST_BYTES: Final = 4 * 1024 * 1024
COMMIT_AGAIN_S: Final = 0.2  # the pause after an abort: most often the next poll reports another assignment


@dataclass
class Done:
    """A firing that was delivered or given up, and whose acknowledgement is not committed yet.

    reason: why it was given up; "" if it was delivered. refused: the brokers refused its dead letter or
    reply; it is written again at `not_before`.
    """

    firing: OpenFiring
    reason: str = ""
    reply: Output | None = None
    refused: bool = False
    not_before: float = 0.0

    def replace(self, firing: OpenFiring) -> None:
        """Acknowledge this one, which is the same firing, read again."""
        old, self.firing = self.firing, firing
        firing.tries, firing.failure, firing.answer = old.tries, old.failure, old.answer

    @property
    def is_plain(self) -> bool:
        """Whether its acknowledgement is all that is written."""
        return not self.reason and self.reply is None

    @property
    def size(self) -> int:
        """About how many bytes are written: the acknowledgement, and the dead letter or the reply."""
        value = len(self.firing.record.value or b"")
        return value * (2 if self.reason else 1) + len((self.reply and self.reply.value) or b"")


class Acknowledgements:
    """Writes acknowledgements with their dead letters and replies, and commits offsets.

    done: by record key. A firing in it waits until its partition is open.
    """

    def __init__(self, context: DelivererContext, ownership: DelivererOwnership) -> None:
        self._config, self.ownership = context.config, ownership
        self._clock, self._monotonic = context.clock, context.monotonic
        self.done: dict[bytes, Done] = {}
        self._offsets_at = self._again_at = 0.0

    def add(self, firing: OpenFiring, reason: str = "", reply: Output | None = None) -> None:
        """Acknowledge this firing in one of the next commits. reason, reply: as in `Done`."""
        self.done[firing.key] = Done(firing, reason, reply)

    def assign(self, assigned: tuple[TopicPartition, ...] | None) -> None:
        """Another assignment begins.

        A delivered firing is kept if its partition may come back, so that it is not sent again.
        """
        self.done = {
            key: Done(done.firing, "", done.reply)
            for key, done in self.done.items()
            if not done.reason and (assigned is None or done.firing.record.source in assigned)
        }
        self._again_at = 0.0

    def forget(self, closed: OpenFiring) -> None:
        """Forget a firing that is acknowledged, unless it was fired again since (a dead letter's redrive)."""
        done = self.done.get(closed.key)
        if done is not None and done.firing.record.offset <= closed.record.offset:
            del self.done[closed.key]

    def forget_closed(self, partition: ActionPartition) -> None:
        """Forget the partition's firings that are no longer open: another process has acknowledged them.

        Does nothing while some open firings of the partition are left out of memory.
        """
        if not self.ownership.is_whole(partition.tp):
            return
        for key in [key for key, done in self.done.items() if done.firing.record.source == partition.tp]:
            if partition.get(key) is None:
                del self.done[key]

    @property
    def offsets_are_due(self) -> bool:
        """Whether offsets are committed even if nothing is acknowledged."""
        return self._monotonic() - self._offsets_at >= OFFSETS_EVERY_S

    def commit(self, membership: object) -> list[OpenFiring]:
        """Acknowledge the firings whose partitions are open. Returns those that are acknowledged now."""
        now = self._monotonic()
        if membership is None or now < self._again_at:
            return []
        due = [
            done
            for done in self.done.values()
            if done.not_before <= now and self.ownership.held(done.firing) is not None
        ]
        plain = [done for done in due if done.is_plain]
        finished: list[OpenFiring] = []
        if plain or self.offsets_are_due:
            finished += self._transact(first_part(plain), membership)
        with_more = [done for done in due if not done.is_plain and not done.refused]
        if with_more:
            finished += self._transact(first_part(with_more), membership)
        until = (tried_at := self._monotonic()) + ALONE_S
        refused = [done for done in due if done.refused and done.not_before <= tried_at]
        for done in sorted(refused, key=lambda done: done.not_before):
            finished += self._transact([done], membership)
            if self._monotonic() >= until:  # the others are due in the next pass, before this one
                break
        return finished

    def _transact(self, dones: Sequence[Done], membership: object) -> list[OpenFiring]:
        """Acknowledge these firings and commit the offsets: all, or nothing."""
        of_partition: dict[TopicPartition, list[OpenFiring]] = {}
        for done in dones:
            of_partition.setdefault(done.firing.record.source, []).append(done.firing)
        offsets: dict[TopicPartition, Committed] = {}
        problems: dict[TopicPartition, str] = {}
        for partition in self.ownership.open:
            tp = partition.tp
            offset = self.offset_to_commit(partition, of_partition.get(tp, []))
            problem = partition.problem
            is_new = problem != self.ownership.problems.get(tp, "")
            if tp in of_partition or offset != self.ownership.committed.get(tp) or is_new:
                offsets[tp] = self.ownership.metadata(offset, problem)
                problems[tp] = problem
        now = self._offsets_at = self._monotonic()
        if not offsets:
            return []
        try:
            outputs = self.outputs(dones)
            self._check_topics(outputs)
            appended = self.ownership.bus.commit(outputs, offsets, membership)
        except TransactionAborted as e:
            log.warning("%d deliveries are not acknowledged yet: %s", len(dones), e)
            if all(done.is_plain for done in dones):
                self._again_at = now + COMMIT_AGAIN_S
            for done in dones:
                if not done.is_plain:  # of several, most may be innocent: each is tried alone at once
                    done.refused, done.not_before = True, now + REFUSED_EVERY_S * (len(dones) == 1)
            return []
        if appended is not None:
            self._clock.observe(appended)
        self.ownership.committed |= {tp: committed.offset for tp, committed in offsets.items()}
        self.ownership.problems |= problems
        for done in dones:
            del self.done[done.firing.key]
            self.ownership.partitions[done.firing.record.source].acknowledged(done.firing.key)
        return [done.firing for done in dones]

    def _check_topics(self, outputs: Iterable[Output]) -> None:
        """Raises TransactionAborted if the topic of a dead letter or reply does not exist.

        The producer would wait its whole timeout for the topic. Then only new clients could go on, and all
        that is in flight would be sent again.
        """
        asked = sorted({output.topic for output in outputs} - {self._config.topic("action")})
        if not asked:
            return
        try:
            found = self.ownership.bus.topics(asked)
        except UnreachableError as e:  # also raised without the right to describe one of them
            raise TransactionAborted(str(e)) from e
        missing = [topic for topic in asked if found[topic] is None]
        if missing:
            command = self._config.command("topics create")
            raise TransactionAborted(f"Topic {missing[0]!r} does not exist. Run: {command}.")

    def offset_to_commit(self, partition: ActionPartition, acknowledged: Iterable[OpenFiring]) -> int:
        """The offset to commit with these acknowledgements."""
        return partition.offset_to_commit_without(acknowledged)

    def outputs(self, dones: Iterable[Done]) -> list[Output]:
        """Dead letters, replies and acknowledgements."""
        outputs = Outputs(self._config, VERSION)
        for done in dones:
            record, tries = done.firing.record, done.firing.tries
            if done.reason:
                more = _about(done.firing.answer)
                now_ms = self._clock.now_ms()
                outputs.dead_letter(record, "delivery", done.reason, now_ms, attempts=tries, more=more)
            if done.reply is not None:
                outputs.records.append(done.reply)
            headers = [(DELIVERER_HEADER, self.ownership.bus.transactional_id.encode())]
            outputs.write("action", record.source.partition, record.key, acked(record), headers)
        return outputs.records


def first_part(dones: Sequence[Done]) -> Sequence[Done]:
    """The first ones, as many as fit into MOST_BYTES; at least one."""
    size = 0
    for number, done in enumerate(dones):
        size += done.size
        if size > MOST_BYTES and number:
            return dones[:number]
    return dones


def _about(answer: Answer | None) -> dict[str, str]:
    """A dead letter's headers about the sink's last answer: the facts that Knative's dispatcher gives."""
    if answer is None:
        return {}
    about = {
        ERROR_DESTINATION: answer.destination,
        ERROR_CODE: "" if answer.status is None else str(answer.status),
        ERROR_DATA: base64.b64encode(answer.excerpt).decode("ascii"),
    }
    return {name: text for name, text in about.items() if text}


def acked(record: Record) -> bytes:
    """The action record in state `acked`, no larger than tasks get it (see `firing_fit.fit_action`)."""
    value = record.value or b""
    # Quotes inside a JSON text are escaped, so the first occurrence is the record's own member.
    if len(value) <= MAX_FIRING_BYTES and value.isascii() and _FIRED in value:
        return value.replace(_FIRED, _ACKED, 1)  # a tenth of the time that decoding takes
    action = fit_action(decode_json(ActionRecord, value, str(record)))
    return encode_json(msgspec.structs.replace(action, state="acked"))
