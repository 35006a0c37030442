"""Opening a session's database: read-only, after a killed writer, from a read-only medium."""

from __future__ import annotations

import sqlite3
from pathlib import Path

DAMAGE = (sqlite3.Error, UnicodeDecodeError)
"""What reading a damaged file raises; SQLite quotes damaged names in its messages."""


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def connect(path: Path) -> sqlite3.Connection:
    """Open a session's database for reading.

    Args:
        path: The file, already known to begin like a session.

    Raises:
        sqlite3.Error: It cannot be read.
        UnicodeDecodeError: It cannot be read, and SQLite's own message is damaged too.
    """
    # A hot journal (the writer was killed) must be rolled back, which needs a
    # writable connection; a read-only medium falls back to the file as it is.
    hot = path.with_name(path.name + "-journal").exists()
    uri = path.resolve().as_uri()
    modes = ["?mode=rw", "?mode=ro", "?immutable=1"] if hot else ["?mode=ro", "?immutable=1"]
    error: Exception | None = None
    for mode in modes:
        db = None
        try:
            db = sqlite3.connect(uri + mode, uri=True, check_same_thread=False, timeout=2.0)
            # A damaged schema is an error of ours to report, not of the decoder's.
            db.text_factory = _text
            db.execute("PRAGMA trusted_schema=OFF")
            db.execute("PRAGMA query_only=ON")
            db.execute("PRAGMA mmap_size=0")
            db.execute("SELECT count(*) FROM sqlite_master").fetchone()
            return db
        except DAMAGE as problem:
            error = problem
            if db is not None:
                db.close()
    assert error is not None
    raise error
