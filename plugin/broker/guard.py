"""Ends a process when this program's standard input closes: `python guard.py <pid>`.

The broker's parent holds the other end of the pipe. However the parent ends, SIGKILL included, the
kernel closes it, and the broker is stopped. Linux' PR_SET_PDEATHSIG was no choice: it fires when the
*thread* that started the broker ends, and exists on Linux only. Run as a file, so that nothing of the
package is imported.
"""

from __future__ import annotations

import sys

import psutil

PATIENCE_S = 15.0


def main(pid: int) -> None:
    try:
        # remembers the start time: a later process with the same id is left alone
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
