"""A stand-in for a daemon: writes its starts and signals to a journal, and answers HTTP when told to.

`fake_child.py NAME JOURNAL [--exit CODE] [--fails-while FILE] [--deaf N] [--engine PID]
[--busy SECONDS] [--port PORT --answer FILE]`
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("journal", type=Path)
    parser.add_argument("--exit", type=int)
    parser.add_argument("--deaf", type=int, default=0, help="ignore this many TERMs")
    parser.add_argument("--fails-while", type=Path, help="exit with code 3 where this file is")
    parser.add_argument("--engine", type=int, help="a process that TERM ends too")
    parser.add_argument("--busy", type=float, default=0.0, help="seconds that TERM takes")
    parser.add_argument("--port", type=int)
    parser.add_argument("--answer", type=Path)
    given = parser.parse_args()
    left = given.deaf

    def write(word: str) -> None:
        with given.journal.open("a") as journal:
            journal.write(f"{given.name} {word} {os.getpid()} {time.monotonic()}\n")

    def on_signal(number: int, _: object) -> None:
        nonlocal left
        write(signal.Signals(number).name)
        if number == signal.SIGTERM and left > 0:
            left -= 1
            return
        if number == signal.SIGTERM and given.engine is not None:
            os.kill(given.engine, signal.SIGKILL)
        end = time.monotonic() + given.busy
        while time.monotonic() < end:  # in small steps: a process at work is seen to move
            threading.Event().wait(0.1)
        os._exit(0)

    write("start")
    if given.fails_while is not None and given.fails_while.exists():
        sys.stderr.write("error: no space\n")
        sys.exit(3)
    if given.engine is not None:
        # As long as imports take: TERM would end it now, and the engine would stay.
        threading.Event().wait(0.5)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        signal.signal(number, on_signal)
    write("listens")
    if given.exit is not None:
        sys.stderr.write("error: the disk is made of cheese\n")
        sys.exit(given.exit)
    if given.port is not None:
        threading.Thread(target=serve, args=(given.port, given.answer), daemon=True).start()
    while True:
        signal.pause()


def serve(port: int, answer: Path) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = answer.read_bytes()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            return

    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


if __name__ == "__main__":
    main()
