"""Notices: what an administrator must know, shown in each waiting task's log. One text per component."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable
from typing import NamedTuple

from ..log import log


class Notice(NamedTuple):
    """A problem, or None if there is no longer one. The wait continues in both cases."""

    text: str | None


class NoticeBoard:
    """Holds the current text of each component, and notifies listeners when the combined text changes.

    Thread-safe. A thread that posts calls the listeners, with one notice at a time, in the order of the
    changes. Listeners must not block; their errors are logged.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._texts: dict[str, str] = {}
        self._listeners: dict[Hashable, Callable[[Notice], None]] = {}
        self._queue: deque[tuple[Notice, list[Callable[[Notice], None]]]] = deque()
        self._notifying = False

    def post(self, component: str, text: str | None) -> None:
        """Set what is wrong with a component; None: nothing is."""
        with self._lock:
            if self._texts.get(component) == text:
                return
            before = self._current()
            if text is None:
                self._texts.pop(component, None)
                log.info("%s: the problem has passed.", component)
            else:
                self._texts[component] = text
                log.warning("%s: %s", component, text)
            now = self._current()
            if now != before:
                self._queue.append((now, list(self._listeners.values())))
        self._notify()

    def listen(self, handle: Hashable, listener: Callable[[Notice], None]) -> None:
        """Call `listener` with each change, and at once with the current text, if there is one."""
        with self._lock:
            self._listeners[handle] = listener
            now = self._current()
            if now.text is not None:
                self._queue.append((now, [listener]))
        self._notify()

    def stop_listening(self, handle: Hashable) -> None:
        with self._lock:
            self._listeners.pop(handle, None)

    def _notify(self) -> None:
        """Deliver the queued notices. One thread at a time does, so listeners get them in order."""
        with self._lock:
            if self._notifying:
                return
            self._notifying = True
        while True:
            with self._lock:
                if not self._queue:
                    self._notifying = False
                    return
                notice, listeners = self._queue.popleft()
            for listener in listeners:
                try:
                    listener(notice)
                except Exception as e:  # noqa: BLE001  # its event loop may be closed; notify the others
                    log.warning("A listener failed on the notice %r: %s", notice.text, e)

    def _current(self) -> Notice:
        # Components often fail together for one reason: show equal texts once.
        return Notice(" ".join(dict.fromkeys(self._texts.values())) or None)
