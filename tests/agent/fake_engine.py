"""A stand-in for an engine, run as a program: serves the paths that are probed, and misbehaves on demand."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--version", action="version", version="fake 7.1")
parser.add_argument("--port", type=int, default=0)
parser.add_argument("--ignore-term", action="store_true")
parser.add_argument("--child", action="store_true", help="start a child in a session of its own")
parser.add_argument("--say", default="")
parser.add_argument("--fail", type=int, help="exit at once with this code")
parser.add_argument("--loading", help="be healthy, but not loaded until this file is there")
parser.add_argument("--deaf", help="answer 500 while this file is there")
args = parser.parse_args()

if args.ignore_term:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if args.child:
    sleeper = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    subprocess.Popen([sys.executable, "-S", "-c", sleeper], start_new_session=True)
print("fake engine", args.say, flush=True)
if args.fail is not None:
    sys.exit(args.fail)


class Handler(BaseHTTPRequestHandler):
    def answer(self) -> None:
        loaded = not args.loading or Path(args.loading).exists()
        if args.deaf and Path(args.deaf).exists():
            status = 500
        elif self.path == "/health":
            status = 200
        elif self.headers.get("Authorization") != f"Bearer {os.environ.get('FAKE_KEY')}":
            status = 401
        else:
            status = 200 if loaded else 503
        length = int(self.headers.get("Content-Length") or 0)
        self.rfile.read(length)
        self.send_response(status)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    do_GET = do_POST = answer  # noqa: N815 - names of the base class

    def log_message(self, *_: object) -> None:
        return


server = HTTPServer(("127.0.0.1", args.port), Handler)
server.serve_forever()
