"""What an administrator must know, told to every waiting task: one text per part of the runtime."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable
from typing import NamedTuple

from ..log import log


class Notice(NamedTuple):
    """Something is wrong (`text`), or well again (`text` None); the wait goes on in any case."""

    text: str | None


class NoticeBoard:
    """Holds the current text of each part, and tells listeners when what they would read changes.

    Thread safe. Listeners are called one notice after the other, in the order of the changes, in a thread
    that posts, and must not block. What a listener raises is logged and is no business of the others.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._texts: dict[str, str] = {}
        self._listeners: dict[Hashable, Callable[[Notice], None]] = {}
        self._untold: deque[tuple[Notice, list[Callable[[Notice], None]]]] = deque()
        self._telling = False

    def post(self, part: str, text: str | None) -> None:
        """Say what is wrong with one part, or None when it is well."""
        with self._lock:
            if self._texts.get(part) == text:
                return
            before = self._current()
            if text is None:
                self._texts.pop(part, None)
                log.info("%s: well again.", part)
            else:
                self._texts[part] = text
                log.warning("%s: %s", part, text)
            now = self._current()
            if now != before:
                self._untold.append((now, list(self._listeners.values())))
        self._tell()

    def listen(self, handle: Hashable, listener: Callable[[Notice], None]) -> None:
        """Tell `listener` of changes, and at once what is wrong now."""
        with self._lock:
            self._listeners[handle] = listener
            now = self._current()
            if now.text is not None:
                self._untold.append((now, [listener]))
        self._tell()

    def ignore(self, handle: Hashable) -> None:
        with self._lock:
            self._listeners.pop(handle, None)

    def _tell(self) -> None:
        """Tell what is untold, unless another thread is at it: so that nobody hears the last word first."""
        with self._lock:
            if self._telling:
                return
            self._telling = True
        while True:
            with self._lock:
                if not self._untold:
                    self._telling = False
                    return
                notice, listeners = self._untold.popleft()
            for listener in listeners:
                try:
                    listener(notice)
                except Exception as e:  # noqa: BLE001  # its event loop may be closed; the others still listen
                    log.warning("A listener could not be told %r: %s", notice.text, e)

    def _current(self) -> Notice:
        # Parts fail together and for one reason: each different sentence is said once.
        return Notice(" ".join(dict.fromkeys(self._texts.values())) or None)
