"""A stand-in for the made-up engine: the smallest OpenAI-compatible server with the flags of the driver."""

from __future__ import annotations

import argparse
import json
import os
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any


class Handler(BaseHTTPRequestHandler):
    """Answers /health to everybody, the rest to those who have the key."""

    name = ""

    def do_GET(self) -> None:
        if self.path == "/health":
            self.answer(200, {"status": "ok"})
        elif not self.allowed():
            self.answer(401, {"error": {"message": "wrong key"}})
        elif self.path == "/v1/models":
            self.answer(200, {"object": "list", "data": [{"id": self.name, "object": "model"}]})
        else:
            self.answer(404, {"error": {"message": "not found"}})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.allowed():
            self.answer(401, {"error": {"message": "wrong key"}})
        elif self.path == "/v1/chat/completions":
            message = {"role": "assistant", "content": asked["messages"][-1]["content"]}
            self.complete({"message": message})
        elif self.path == "/v1/completions":
            self.complete({"text": asked["prompt"]})
        else:
            self.answer(404, {"error": {"message": "not found"}})

    def complete(self, content: dict[str, Any]) -> None:
        choice = {"index": 0, "finish_reason": "stop", **content}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        self.answer(200, {"model": self.name, "choices": [choice], "usage": usage})

    def allowed(self) -> bool:
        key = os.environ.get("EXAMPLE_API_KEY")
        return key is None or self.headers.get("Authorization") == f"Bearer {key}"

    def answer(self, status: int, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def main() -> None:
    parser = argparse.ArgumentParser("example-server", allow_abbrev=False)
    parser.add_argument("--version", action="version", version="example-server 1.0")
    parser.add_argument("--model", required=True, help="file of the model")
    parser.add_argument("--name", required=True, help="name to serve it under")
    parser.add_argument("--host", required=True, help="address to listen on")
    parser.add_argument("--port", type=int, required=True, help="port to listen on")
    parser.add_argument("--context", type=int, default=2048, help="tokens of one request")
    parser.add_argument("--threads", type=int, default=1, help="threads to compute with")
    arguments = parser.parse_args()
    if not Path(arguments.model).exists():
        sys.exit(f"cannot load model {arguments.model}")
    Handler.name = arguments.name
    server = HTTPServer((arguments.host, arguments.port), Handler)
    print(f"listening on {arguments.host}:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
