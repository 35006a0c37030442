"""Recording a session: append-only, in a thread of its own.

The caller hands over records and arrays and goes on; one background thread
hashes, compresses and inserts, so that storing overlaps with computing.  The
backlog is bounded in bytes: a caller that runs ahead waits.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import xxhash

from npudbg.session import codec, schema
from npudbg.session.commands import ACCESS, COMMAND, Rows, Space
from npudbg.session.coverage import COVER, cover
from npudbg.session.errors import UserError
from npudbg.session.records import Counter, Finding, Meta, NodeRecord, TensorRecord, Verdict
from npudbg.session.worker import Worker

_BACKLOG_BYTES = 48 << 20
_HURRY_BYTES = 16 << 20
_COMMIT_BYTES = 64 << 20
_COMMIT_SECONDS = 1.0
_SYNC_BYTES = 16 << 20
_COMPACT_BYTES = 4 << 20
_ROWS_PER_CHUNK = 4096

_pack = msgspec.msgpack.Encoder().encode


def _remove(partial: Path) -> None:
    """Remove a session that was not published, and SQLite's journal of it."""
    for each in (partial, partial.with_name(partial.name + "-journal")):
        each.unlink(missing_ok=True)


class SessionWriter:
    """Writes one session file.

    Records may be put in any order; ids are the caller's (dense, from 0), blob
    ids are handed out here.  An array that was put must not be changed afterwards.

    Attributes:
        path: The file.
        keep_data: Whether tensor bytes are kept; if not, ``put_*`` return None.
    """

    def __init__(self, path: Path | str | None = None, *, keep_data: bool = True) -> None:
        """Create the file.

        Args:
            path: Where to; None makes a temporary file that :meth:`discard` removes.
            keep_data: False keeps records only, not tensor bytes.

        Raises:
            UserError: The file cannot be created.
        """
        self.temporary = path is None
        if path is None:
            handle, name = tempfile.mkstemp(suffix=schema.SUFFIX, prefix="npudbg-")
            os.close(handle)
            path = name
        self.path = Path(path)
        self.keep_data = keep_data
        # Written beside the goal and renamed at the end: an older session of the
        # same name stays whole until the new one is.
        self._partial = (
            self.path if self.temporary else self.path.with_name(self.path.name + ".part")
        )
        # Whatever ends the program between here and publish() leaves no file behind.
        self._unpublished = weakref.finalize(self, _remove, self._partial)
        try:
            self._partial.unlink(missing_ok=True)
            self._db = sqlite3.connect(self._partial, isolation_level=None, check_same_thread=False)
            schema.create(self._db)
        except (OSError, sqlite3.Error) as error:
            raise UserError(
                f"{self.path}: cannot write a session here ({error}); "
                "choose another place with --save"
            ) from None
        self._next_blob = 0
        self._chunks: dict[bytes, int] = {}
        self._blob_ids: dict[tuple[int, int], int] = {}
        self._rows: list[Rows] = []
        self._n_rows = 0
        self._accesses: list[Rows] = []
        self._n_accesses = 0
        self._coverage: list[Rows] = []
        self._total_commands = 0
        self._max_cycle = 0
        self._stored = 0
        self._closed = self._discarded = False
        self._uncommitted, self._committed = 0, time.monotonic()
        self._worker = Worker("npudbg-writer", _BACKLOG_BYTES)
        self._worker.submit(partial(self._execute, "BEGIN", ()))

    # -- what the caller uses ------------------------------------------------------------

    def put_bytes(self, data: bytes | bytearray | memoryview) -> int | None:
        """Store bytes and return their blob id (None when data is not kept)."""
        if not self.keep_data:
            return None
        blob = self._next_blob
        self._next_blob += 1
        self._submit(self._store_blob, (blob, data), memoryview(data).nbytes)
        return blob

    def put_array(self, array: npt.NDArray[Any]) -> int | None:
        """Store an array's logical bytes in C order; returns a blob id or None."""
        if not self.keep_data:
            return None
        packed = np.ascontiguousarray(array)
        return self.put_bytes(packed.reshape(-1).view(np.uint8).data)

    def add_tensor(self, record: TensorRecord) -> None:
        """Add or replace a tensor record."""
        self._insert("tensor", record.id, record)

    def add_node(self, record: NodeRecord) -> None:
        """Add or replace a node record."""
        self._insert("node", record.index, record)

    def add_findings(self, findings: Iterable[Finding]) -> None:
        """Replace the session's findings."""
        rows = [(i, _pack(f)) for i, f in enumerate(findings)]
        self._submit(self._store_findings, (rows,), 0)

    def set_meta(self, meta: Meta) -> None:
        """Set what was run, on what, with which options."""
        self._set("meta", meta)

    def set_verdict(self, verdict: Verdict) -> None:
        """Set the verdict."""
        self._set("verdict", verdict)

    def set_counters(self, counters: Iterable[Counter]) -> None:
        """Set the run's counters."""
        self._set("counters", list(counters))

    def set_extra(self, key: str, value: Any) -> None:
        """Set a further JSON-like value, e.g. the lowering stages."""
        self._set(f"extra:{key}", value)

    def append_commands(self, rows: Rows) -> None:
        """Append command rows (:data:`~npudbg.session.commands.COMMAND`), ``seq`` ascending."""
        self._rows.append(rows)
        self._n_rows += len(rows)
        if self._n_rows >= _ROWS_PER_CHUNK:
            self._flush_rows()

    def append_accesses(self, rows: Rows) -> None:
        """Append access rows, ``seq`` ascending."""
        self._accesses.append(rows)
        self._n_accesses += len(rows)
        if self._n_accesses >= _ROWS_PER_CHUNK:
            self._flush_accesses()

    def put_payload(self, seq: int, data: bytes) -> None:
        """Keep the very bytes that command ``seq`` wrote.

        Needed only where they differ from the final tensor's bytes (a command
        that an injection touched, a partial sum).
        """
        blob = self.put_bytes(data)
        if blob is not None:
            self._submit(
                self._execute, ("INSERT OR REPLACE INTO payload VALUES (?,?)", (seq, blob)), 0
            )

    def put_observed(self, seq: int, operand: int, data: bytes) -> None:
        """Keep the operand bytes that command ``seq`` read where no command wrote them."""
        blob = self.put_bytes(data)
        if blob is not None:
            self._submit(
                self._execute,
                ("INSERT OR REPLACE INTO observed VALUES (?,?,?)", (seq, operand, blob)),
                0,
            )

    def finish(self, *, status: str = "complete") -> Path:
        """Write what is left and commit; returns where the file lies until published."""
        if self._closed:
            return self._partial
        self._flush_rows()
        self._flush_accesses()
        self._submit(self._store_coverage, (), 0)
        self._set("commands", {"count": self._total_commands, "cycles": self._max_cycle})
        self._set("status", status)
        self._stop()
        return self._partial

    def amend(
        self,
        findings: Iterable[Finding],
        verdict: Verdict,
        counters: Iterable[Counter] = (),
        extras: Mapping[str, Any] | None = None,
    ) -> None:
        """Add the judgement (and further values) to a finished session not yet published."""
        more = [(f"extra:{key}", _pack(value)) for key, value in (extras or {}).items()]
        try:
            with sqlite3.connect(self._partial) as db:
                db.execute("PRAGMA synchronous=OFF")
                db.execute("DELETE FROM finding")
                db.executemany(
                    "INSERT INTO finding VALUES (?,?)",
                    [(i, _pack(f)) for i, f in enumerate(findings)],
                )
                db.executemany(
                    "INSERT OR REPLACE INTO meta VALUES (?,?)",
                    [("verdict", _pack(verdict)), ("counters", _pack(list(counters))), *more],
                )
            db.close()
        except sqlite3.Error as error:
            raise UserError(f"{self.path}: writing the session failed ({error})") from None

    def publish(self) -> Path:
        """Put the finished file in its place."""
        if not self.temporary and self._partial.exists():
            self._partial.replace(self.path)
        self._unpublished.detach()
        return self.path

    def close(self, *, status: str = "complete") -> Path:
        """Finish and publish."""
        self.finish(status=status)
        return self.publish()

    def discard(self) -> None:
        """Close and remove what was written."""
        if not self._closed:
            self._closed = self._discarded = True
            self._worker.stop()
            self._db.close()
        self._unpublished()

    # -- the thread ----------------------------------------------------------------------

    def _submit(self, work: Callable[..., None], args: tuple[Any, ...], nbytes: int) -> None:
        if self._worker.error is not None:
            raise self._failed() from self._worker.error
        self._worker.submit(partial(self._do, work, args, nbytes), nbytes)

    def _do(self, work: Callable[..., None], args: tuple[Any, ...], nbytes: int) -> None:
        """Do one piece of work in the thread, and commit from time to time."""
        if self._discarded:
            return
        work(*args)
        self._uncommitted += nbytes
        now = time.monotonic()
        if self._uncommitted > _COMMIT_BYTES or now - self._committed > _COMMIT_SECONDS:
            self._db.execute("COMMIT")
            self._db.execute("BEGIN")
            self._uncommitted, self._committed = 0, now

    def _failed(self) -> UserError:
        return UserError(f"{self.path}: writing the session failed ({self._worker.error})")

    def _stop(self) -> None:
        self._closed = True
        self._worker.submit(partial(self._execute, "COMMIT", ()))
        self._worker.stop()
        if self._worker.error is not None:
            self._db.close()
            raise self._failed() from self._worker.error
        if self._stored < _COMPACT_BYTES:
            # Large pages suit large tensors; a small session would be mostly padding.
            self._db.execute(f"PRAGMA page_size={schema.SMALL_PAGE_BYTES}")
            self._db.execute("VACUUM")
        self._db.close()
        # Exclusive locking leaves the emptied journal behind.
        self._partial.with_name(self._partial.name + "-journal").unlink(missing_ok=True)
        if self._stored < _SYNC_BYTES:
            # Cheap for a small session; a large one is left to the system's own pace.
            with self._partial.open("rb") as file:
                os.fsync(file.fileno())

    def _execute(self, statement: str, args: tuple[Any, ...]) -> None:
        self._db.execute(statement, args)

    def _insert(self, table: str, key: int, record: Any) -> None:
        self._submit(
            self._execute, (f"INSERT OR REPLACE INTO {table} VALUES (?,?)", (key, _pack(record))), 0
        )

    def _set(self, key: str, value: Any) -> None:
        self._submit(
            self._execute, ("INSERT OR REPLACE INTO meta VALUES (?,?)", (key, _pack(value))), 0
        )

    def _store_findings(self, rows: list[tuple[int, bytes]]) -> None:
        self._db.execute("DELETE FROM finding")
        self._db.executemany("INSERT INTO finding VALUES (?,?)", rows)

    def _store_blob(self, blob: int, data: Any) -> None:
        view = memoryview(data).cast("B")
        ids = []
        for at in range(0, len(view), schema.CHUNK_BYTES):
            ids.append(self._store_chunk(view[at : at + schema.CHUNK_BYTES]))
        self._db.execute(
            "INSERT INTO blob VALUES (?,?,?)",
            (blob, len(view), np.array(ids, "<i8").tobytes()),
        )

    def _store_chunk(self, view: memoryview) -> int:
        # 128 bits of a non-cryptographic hash: it finds equal chunks of our own run;
        # nothing is ever trusted because of it.
        digest = xxhash.xxh3_128_digest(view) + len(view).to_bytes(4, "little")
        known = self._chunks.get(digest)
        if known is not None:
            return known
        kind, stored = codec.encode(view, hurry=self._worker.waiting > _HURRY_BYTES)
        number = len(self._chunks)
        self._chunks[digest] = number
        self._stored += len(stored)
        self._db.execute("INSERT INTO chunk VALUES (?,?,?,?)", (number, kind, len(view), stored))
        return number

    def _flush_rows(self) -> None:
        if not self._n_rows:
            return
        rows = np.concatenate(self._rows).astype(COMMAND, copy=False)
        self._rows, self._n_rows = [], 0
        self._total_commands = int(rows["seq"][-1]) + 1
        self._max_cycle = max(self._max_cycle, int(rows["end"].max()))
        for at in range(0, len(rows), _ROWS_PER_CHUNK):
            part = rows[at : at + _ROWS_PER_CHUNK]
            self._submit(self._store_rows, (part,), part.nbytes)

    def _store_rows(self, rows: Rows) -> None:
        packed = pack_rows(rows)
        kind, stored = codec.encode(packed)
        self._coverage.append(cover(rows))
        ranges = [v for s in (Space.SRAM, Space.DDR, Space.HOST) for v in _written(rows, s)]
        self._db.execute(
            "INSERT INTO command VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)",
            (
                int(rows["seq"][0]),
                int(rows["seq"][-1]),
                int(rows["start"].min()),
                int(rows["end"].max()),
                *ranges,
                kind,
                len(packed),
                stored,
            ),
        )

    def _store_coverage(self) -> None:
        packed = pack_rows(np.concatenate([np.zeros(0, COVER), *self._coverage]))
        kind, stored = codec.encode(packed)
        value = _pack((kind, len(packed), bytes(stored)))
        self._db.execute("INSERT OR REPLACE INTO meta VALUES (?,?)", ("coverage", value))

    def _flush_accesses(self) -> None:
        if not self._n_accesses:
            return
        rows = np.concatenate(self._accesses).astype(ACCESS, copy=False)
        self._accesses, self._n_accesses = [], 0
        for at in range(0, len(rows), _ROWS_PER_CHUNK):
            part = rows[at : at + _ROWS_PER_CHUNK]
            self._submit(self._store_accesses, (part,), part.nbytes)

    def _store_accesses(self, rows: Rows) -> None:
        packed = pack_rows(rows)
        kind, stored = codec.encode(packed)
        self._db.execute(
            "INSERT INTO access (first_seq,last_seq,codec,nbytes,data) VALUES (?,?,?,?,?)",
            (int(rows["seq"][0]), int(rows["seq"][-1]), kind, len(packed), stored),
        )


def pack_rows(rows: Rows) -> bytes:
    """Return rows column by column: like values side by side compress far better."""
    names = rows.dtype.names or ()
    return b"".join(np.ascontiguousarray(rows[name]).tobytes() for name in names)


def unpack_rows(data: bytes, dtype: np.dtype[Any]) -> Rows:
    """Undo :func:`pack_rows`."""
    count = len(data) // dtype.itemsize
    rows = np.empty(count, dtype)
    at = 0
    fields: Mapping[str, Any] = dtype.fields or {}
    for name in dtype.names or ():
        field = fields[name][0]
        size = field.itemsize * count
        rows[name] = np.frombuffer(data, field.base, size // field.base.itemsize, at).reshape(
            (count, *field.shape)
        )
        at += size
    return rows


def _written(rows: Rows, space: int) -> tuple[int, int]:
    """Return the address range that ``rows`` write in ``space`` (1, 0 when none)."""
    part = rows[rows["dst_space"] == space]
    if not len(part):
        return 1, 0
    return int(part["dst"].min()), int((part["dst"] + part["nbytes"]).max())
