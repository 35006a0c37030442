"""The session file's tables, identity and version.

One SQLite file.  The rollback journal is kept in TRUNCATE mode rather than WAL:
pages appended to the file need no journal of their own, so tensor bytes are
written once instead of twice (write-ahead log, then checkpoint).  Measured on
600 MB of 1 MB chunks with 64 KB pages: 0.4 to 0.9 s against 3.7 s.  A writer
killed at any moment leaves its last commit readable, because what it wrote is
the operating system's; only a power cut within seconds of a large recording can
cut the file, and opening it then says so.
"""

from __future__ import annotations

import sqlite3

APPLICATION_ID = 0x6E70_7564  # "npud"
VERSION = 1
PAGE_BYTES = 65536
SMALL_PAGE_BYTES = 4096
SUFFIX = ".npudbg"

CHUNK_BYTES = 1 << 20
"""Tensor bytes are stored in pieces of this size, each found once by content."""

TABLES = {
    "meta": "CREATE TABLE meta (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
    "node": "CREATE TABLE node (id INTEGER PRIMARY KEY, data BLOB NOT NULL)",
    "tensor": "CREATE TABLE tensor (id INTEGER PRIMARY KEY, data BLOB NOT NULL)",
    "finding": "CREATE TABLE finding (id INTEGER PRIMARY KEY, data BLOB NOT NULL)",
    "chunk": (
        "CREATE TABLE chunk (id INTEGER PRIMARY KEY, codec INTEGER NOT NULL,"
        " nbytes INTEGER NOT NULL, data BLOB NOT NULL)"
    ),
    "blob": (
        "CREATE TABLE blob (id INTEGER PRIMARY KEY, nbytes INTEGER NOT NULL, chunks BLOB NOT NULL)"
    ),
    "command": (
        "CREATE TABLE command (first_seq INTEGER PRIMARY KEY, last_seq INTEGER NOT NULL,"
        " start INTEGER NOT NULL, end INTEGER NOT NULL,"
        " sram_lo INTEGER NOT NULL, sram_hi INTEGER NOT NULL,"
        " ddr_lo INTEGER NOT NULL, ddr_hi INTEGER NOT NULL,"
        " host_lo INTEGER NOT NULL, host_hi INTEGER NOT NULL,"
        " codec INTEGER NOT NULL, nbytes INTEGER NOT NULL, data BLOB NOT NULL)"
    ),
    "access": (
        "CREATE TABLE access (id INTEGER PRIMARY KEY, first_seq INTEGER NOT NULL,"
        " last_seq INTEGER NOT NULL, codec INTEGER NOT NULL, nbytes INTEGER NOT NULL,"
        " data BLOB NOT NULL)"
    ),
    "payload": "CREATE TABLE payload (seq INTEGER PRIMARY KEY, blob INTEGER NOT NULL)",
    "observed": (
        "CREATE TABLE observed (seq INTEGER NOT NULL, operand INTEGER NOT NULL,"
        " blob INTEGER NOT NULL, PRIMARY KEY (seq, operand)) WITHOUT ROWID"
    ),
}


def create(connection: sqlite3.Connection) -> None:
    """Lay an empty session in a new database file."""
    connection.execute(f"PRAGMA page_size={PAGE_BYTES}")
    connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version={VERSION}")
    connection.execute("PRAGMA journal_mode=TRUNCATE")
    connection.execute("PRAGMA synchronous=OFF")
    connection.execute("PRAGMA locking_mode=EXCLUSIVE")
    for statement in TABLES.values():
        connection.execute(statement)
