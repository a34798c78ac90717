"""Shared by the commands that run an engine or a deliverer in the foreground, until a signal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn

from .console import bus_until, print_lines

if TYPE_CHECKING:
    import threading
    from argparse import Namespace
    from contextlib import AbstractContextManager

    from airflow.cli.cli_config import Arg

    from ...engine.runtime.loops import Loops
    from ...engine.waiting.notices import Notice

READ_AGAIN_S: Final = 15.0
MOST_PORT: Final = 65_535
PROBE_HOST: Final = "127.0.0.1"


def stop_signal() -> threading.Event:
    """Returns an event that SIGTERM and SIGINT set."""
    import signal
    import threading

    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop


def probe_arguments() -> tuple[Arg, ...]:
    """Returns --probe-port and --probe-host."""
    from airflow.cli.cli_config import Arg

    return (
        Arg(
            ("--probe-port",),
            type=int,
            metavar="PORT",
            help="answer GET /healthz and /readyz on this port (default: on none)",
        ),
        Arg(("--probe-host",), metavar="ADDRESS", help=f"address for --probe-port ({PROBE_HOST})"),
    )


def check_probe_port(args: Namespace) -> None:
    if args.probe_port is None and args.probe_host is not None:
        raise SystemExit("--probe-host needs --probe-port: without it no probe is answered.")
    if args.probe_port is not None and not 1 <= args.probe_port <= MOST_PORT:
        raise SystemExit(f"--probe-port: give a number from 1 to {MOST_PORT}.")


def probes(args: Namespace, loops: Loops) -> AbstractContextManager[object]:
    """Answers probes of the loops inside the `with` block, if --probe-port is given.

    Raises ConfigError if it cannot listen there.
    """
    from contextlib import nullcontext

    if args.probe_port is None:
        return nullcontext()
    from ...engine.runtime.probes import Probes

    return Probes(loops, PROBE_HOST if args.probe_host is None else args.probe_host, args.probe_port)


def run_until(stop: threading.Event, args: Namespace, loops: Loops, what_continues: str) -> None:
    """Starts the loops, and returns when `stop` is set; the caller stops them.

    While they report a problem, reads the connection again: an administrator may have corrected it. If it
    cannot be read or used, they continue with the one that they have, and the log says so.

    what_continues: for the log, such as "The engine continues".
    """
    from airflow.exceptions import AirflowNotFoundException

    from ...engine.errors import ConfigError
    from ...engine.log import log

    problem: list[str | None] = [None]

    def on_notice(notice: Notice) -> None:
        problem[0] = notice.text

    loops.board.listen("command", on_notice)
    loops.start()
    while not stop.wait(READ_AGAIN_S):
        if problem[0] is not None:
            try:
                found = bus_until(args, stop)
                if found is not None:
                    loops.use(found)
            except (ConfigError, AirflowNotFoundException) as e:
                log.warning("%s %s with the earlier connection.", e, what_continues)


def end_process(command: str, reason: str) -> NoReturn:
    """Ends the process at once: a clean exit could wait for locks of the hanging threads."""
    import os
    import sys

    print_lines(f"airflow interlock {command}: {reason}", sys.stderr)
    os._exit(1)
