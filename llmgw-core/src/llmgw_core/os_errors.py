"""What a person can do about an error of the operating system."""

from __future__ import annotations

import errno

_ADVICE = {
    (errno.ENOSPC, errno.EDQUOT): "make room on that disk (`df -h`, `df -i`), then try again",
    (errno.EROFS,): "the file system is mounted read-only; mount it for writing, or choose another directory",
    (errno.EACCES, errno.EPERM): "look at who may use it (`ls -ld`), or run as the user who may",
    (errno.EMFILE, errno.ENFILE): "too many files are open; raise the limit (`ulimit -n`)",
    (
        errno.ENOMEM,
        errno.EAGAIN,
    ): "the machine, or this user, has no more memory or processes left (`ulimit -a`)",
    (errno.EIO,): "the device reports a defect; look at the kernel's log (`dmesg`)",
    (errno.ENOENT, errno.ENOTDIR, errno.EISDIR): "check the path",
}


def sentence(error: OSError) -> str:
    """What failed, with the file where it is known."""
    reason = error.strerror or str(error) or type(error).__name__
    return reason if error.filename is None else f"{error.filename}: {reason}"


def advice(error: OSError) -> str | None:
    """What to do about it; None where nothing is known."""
    return next((text for numbers, text in _ADVICE.items() if error.errno in numbers), None)
