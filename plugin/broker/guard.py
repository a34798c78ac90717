"""Ends a process when this program's standard input closes: `python guard.py <pid>`.

The broker's parent holds the other end of the pipe. When the parent ends, even by SIGKILL, the kernel closes
the pipe, and this program stops the broker. Linux's PR_SET_PDEATHSIG does not fit: it fires when the *thread*
that started the broker ends. Run as a file, so that nothing of the package is imported.
"""

from __future__ import annotations

import sys

import psutil

PATIENCE_S = 15.0


def main(pid: int) -> None:
    try:
        # psutil compares start times, so a later process with the same id is left alone.
        process = psutil.Process(pid)
    except psutil.NoSuchProcess:
        return
    sys.stdin.read()
    try:
        process.terminate()
        process.wait(PATIENCE_S)
    except psutil.TimeoutExpired:
        process.kill()
    except psutil.NoSuchProcess:
        pass


if __name__ == "__main__":
    main(int(sys.argv[1]))
