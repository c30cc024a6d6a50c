"""What the first `llmgw up` of a state directory makes: directories, tokens, the client's key."""

from __future__ import annotations

import secrets
import string

from llmgw_core.cli.up.layout import StateLayout
from llmgw_core.cli.up.private_file import read_private, write_private
from llmgw_core.credentials import api_key
from llmgw_core.daemon import make_dir

ROLES = ("admin", "agent", "gateway")
_LETTERS = string.ascii_letters + string.digits


def prepare(layout: StateLayout) -> None:
    """Make what is missing and leave what is there. Raises StateDirError."""
    for directory in layout.directories():
        make_dir(directory)
    for role in ROLES:
        if not read_private(layout.token(role)):
            write_private(layout.token(role), secrets.token_hex(32) + "\n")
    if not read_private(layout.api_key):
        key = api_key("".join(secrets.choice(_LETTERS) for _ in range(32)))
        write_private(layout.api_key, key + "\n")


def read_secret(layout: StateLayout, role: str) -> str:
    """The token of a role, or the client's key for `api_key`."""
    path = layout.api_key if role == "api_key" else layout.token(role)
    return (read_private(path) or "").strip()
