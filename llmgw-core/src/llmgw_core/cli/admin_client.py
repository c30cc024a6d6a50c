"""Calls of the admin API (and of the gateway's list of models): small, blocking, no heavy import."""

from __future__ import annotations

import json
from http.client import HTTPException
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, Request, build_opener

from llmgw_core.spec.errors import ConfigError, RequestFailed

MAX_ANSWER = 32 * 1024 * 1024


class AdminClient:
    """A server's URL and the token that it is asked with. A proxy of the environment is not used."""

    def __init__(self, server: str, token: str, *, timeout: float = 10.0) -> None:
        self.server = (server if "://" in server else f"http://{server}").rstrip("/")
        if not self.server.startswith(("http://", "https://")):
            raise ConfigError("expected an http:// or https:// URL", where=server)
        self._token = token
        self._timeout = timeout
        self._opener = build_opener(ProxyHandler({}))

    def call(self, method: str, path: str, body: object = None) -> object:
        """The JSON answer. Raises RequestFailed for an error, for nonsense, and when nobody answers."""
        request = Request(  # noqa: S310 - the scheme is checked above
            self.server + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"},
        )
        try:
            with self._opener.open(request, timeout=self._timeout) as answer:
                return json.loads(answer.read(MAX_ANSWER) or b"null")
        except HTTPError as error:
            with error:
                raise _refused(error, self.server) from None
        except (URLError, OSError, HTTPException) as error:
            raise self._away(error) from None
        except ValueError:
            raise RequestFailed(
                "answered with something that is not JSON",
                where=self.server,
                fix="check that this is the address of an llmgw control plane",
            ) from None

    def _away(self, error: Exception) -> RequestFailed:
        reason = getattr(error, "reason", error)
        return RequestFailed(
            f"does not answer: {getattr(reason, 'strerror', None) or reason or type(error).__name__}",
            where=self.server,
            fix="check that it runs (`llmgw up` or `llmgw server`) and that --server is right",
        )


def _refused(error: HTTPError, server: str) -> RequestFailed:
    token = "give the right --token (or LLMGW_TOKEN)" if error.code == 401 else None
    try:
        told = json.loads(error.read(64 * 1024))["error"]
        return RequestFailed(str(told["message"]), where=server, fix=told.get("fix") or token)
    except (ValueError, KeyError, TypeError, AttributeError, OSError):
        # Not our form of an error: the status has to do.
        fix = token or "check that --server names an llmgw control plane"
        return RequestFailed(f"HTTP {error.code}, and no word why", where=server, fix=fix)
