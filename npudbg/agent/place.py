"""Where the sockets lie and who may speak on them: this user alone.

Sockets are made with mode 0600 in a directory of mode 0700 that this user owns,
and both sides ask the kernel for the peer's uid (``SO_PEERCRED``) before a byte
is read.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
import tempfile
from pathlib import Path

_MAX_PATH = 100
"""A Unix socket's path has room for 107 bytes."""


class RefusedError(Exception):
    """The directory or the peer is not this user's."""


def directory() -> Path:
    """Return the private directory for sockets, made if need be.

    ``$XDG_RUNTIME_DIR/npudbg``, else ``npudbg-UID`` under the temporary directory.

    Raises:
        RefusedError: What stands there is a link, another user's, or open to others.
        OSError: It cannot be made.
    """
    uid = os.getuid()
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime and Path(runtime).is_dir() and len(runtime) < _MAX_PATH - 40:
        path = Path(runtime) / "npudbg"
    else:
        root = tempfile.gettempdir()
        path = Path(root if len(root) < _MAX_PATH - 40 else "/tmp") / f"npudbg-{uid}"
    path.mkdir(mode=0o700, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != uid:
        raise RefusedError(f"{path}: not a directory of this user")
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise RefusedError(f"{path}: open to others (chmod 700 it)")
    return path


def listen(path: Path, backlog: int = 64) -> socket.socket:
    """Return a listening socket at ``path``, mode 0600, in place of a dead one.

    Raises:
        OSError: It cannot be bound, e.g. because a living process listens there.
    """
    if path.is_socket():
        if path.lstat().st_uid != os.getuid() or _alive(path):
            raise FileExistsError(f"{path}: somebody listens there")
    elif path.exists():
        raise FileExistsError(f"{path}: exists and is no socket")
    # Made under another name and renamed: whoever sees it finds it private and listening.
    # (umask would do too, but it is the whole process's and not ours to change.)
    made = path.with_name(f".{os.getpid()}-{path.name}")
    made.unlink(missing_ok=True)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(str(made))
        made.chmod(0o600)
        sock.listen(backlog)
        made.rename(path)
    except BaseException:
        sock.close()
        made.unlink(missing_ok=True)
        raise
    return sock


def connect(path: Path, timeout: float) -> socket.socket:
    """Connect to a socket of this user.

    Raises:
        RefusedError: The listener is another user's process.
        OSError: Nobody listens.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(timeout)
        sock.connect(str(path))
        check_peer(sock)
    except BaseException:
        sock.close()
        raise
    return sock


def check_peer(sock: socket.socket) -> int:
    """Check that the peer is a process of this user; return its pid.

    Raises:
        RefusedError: It is another user's.
    """
    pid, uid = peer(sock)
    if uid != os.geteuid():
        raise RefusedError(f"peer process {pid} belongs to uid {uid}, not to {os.geteuid()}")
    return pid


def peer(sock: socket.socket) -> tuple[int, int]:
    """Return the peer's pid and uid, as the kernel knows them."""
    size = struct.calcsize("3i")
    pid, uid, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return pid, uid


def _alive(path: Path) -> bool:
    probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        probe.settimeout(1.0)
        probe.connect(str(path))
    except ConnectionRefusedError:
        return False
    except OSError:
        return True
    finally:
        probe.close()
    return True
