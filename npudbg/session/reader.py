"""Reading a session: what every view, rule and debugger verb stands on.

Opening reads nothing but the small ``meta`` table, so its time does not grow
with the file.  Everything else is fetched when asked for, and cached.
"""

from __future__ import annotations

import bisect
import sqlite3
import threading
from collections import OrderedDict
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from npudbg.session import codec, schema
from npudbg.session.commands import ACCESS, COMMAND, Rows, Space
from npudbg.session.coverage import COVER
from npudbg.session.dtypes import numpy_dtype
from npudbg.session.errors import SessionError
from npudbg.session.opening import DAMAGE, connect
from npudbg.session.records import Counter, Finding, Meta, NodeRecord, TensorRecord, Verdict
from npudbg.session.writer import unpack_rows

T = TypeVar("T")
_MAX_RECORD = 8 << 20
_MAX_CHUNK_ROWS = 1 << 20
_MAX_COVERAGE = 256 << 20
_CACHE_ROWS = 64
_SPACES = {Space.SRAM: "sram", Space.DDR: "ddr", Space.HOST: "host"}


class Session:
    """A recorded run, read-only.

    Use :meth:`open`.  Thread-safe; close it when done (or use ``with``).
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        """Wrap an already checked connection; see :meth:`open`."""
        self.path = path
        self._db = connection
        self._lock = threading.RLock()
        self._rows: OrderedDict[int, Rows] = OrderedDict()
        self._access_rows: OrderedDict[int, Rows] = OrderedDict()
        self._by_name: dict[str, int] | None = None

    @classmethod
    def open(cls, path: Path | str) -> Session:
        """Open a session file.

        Raises:
            SessionError: Not there, not a session, cut, corrupt or newer.
        """
        path = Path(path)
        if not path.exists():
            raise SessionError(f"{path}: no such session file")
        if not path.is_file():
            raise SessionError(f"{path}: not a regular file; a .npudbg session was expected")
        with path.open("rb") as file:
            head = file.read(100)
        if not head.startswith(b"SQLite format 3\0"):
            what = "is empty" if not head else "is not an npudbg session"
            raise SessionError(f"{path}: {what}; expected a file written by `npudbg … --save`")
        if int.from_bytes(head[68:72], "big") != schema.APPLICATION_ID:
            raise SessionError(f"{path}: a SQLite file, but not an npudbg session")
        version = int.from_bytes(head[60:64], "big")
        if version > schema.VERSION:
            raise SessionError(
                f"{path}: session format {version} is newer than this npudbg reads "
                f"({schema.VERSION}); update npudbg"
            )
        try:
            session = cls(path, connect(path))
            session._check_tables()
            _ = session.meta
        except DAMAGE as error:
            raise SessionError(f"{path}: the session is damaged ({error})") from None
        return session

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # -- records -------------------------------------------------------------------------

    @cached_property
    def meta(self) -> Meta:
        """What was run, on what, with which options."""
        found: Meta = self._meta("meta", Meta, Meta())
        return found

    @cached_property
    def status(self) -> str:
        """``complete``, ``cancelled`` … or ``interrupted`` if the writer died."""
        found: str = self._meta("status", str, "interrupted")
        return found

    @cached_property
    def verdict(self) -> Verdict | None:
        """The verdict, or None if the run was never judged."""
        found: Verdict | None = self._meta("verdict", Verdict, None)
        return found

    @cached_property
    def counters(self) -> list[Counter]:
        """The run's counters."""
        found: list[Counter] = self._meta("counters", list[Counter], [])
        return found

    def extra(self, key: str) -> Any:
        """Return a further value that the backend left (None if absent)."""
        return self._meta(f"extra:{key}", Any, None)

    @cached_property
    def nodes(self) -> list[NodeRecord]:
        """All nodes in execution order."""
        return self._table("node", NodeRecord)

    @cached_property
    def tensors(self) -> list[TensorRecord]:
        """All tensors; a tensor's id is its index."""
        return self._table("tensor", TensorRecord)

    @cached_property
    def findings(self) -> list[Finding]:
        """All findings, in the order of their layers."""
        return self._table("finding", Finding)

    def tensor(self, name: str) -> TensorRecord | None:
        """Return the tensor of that name, or None."""
        if self._by_name is None:
            self._by_name = {t.name: t.id for t in self.tensors}
        number = self._by_name.get(name)
        return None if number is None else self.tensors[number]

    def node(self, name: str) -> NodeRecord | None:
        """Return the node of that name or label, or None."""
        return next((n for n in self.nodes if name in (n.name, n.label)), None)

    # -- tensor bytes --------------------------------------------------------------------

    def blob(self, number: int) -> bytes:
        """Return a stored blob's bytes.

        Raises:
            SessionError: It is missing or damaged.
        """
        row = self._one("SELECT nbytes, chunks FROM blob WHERE id=?", (number,))
        if row is None:
            raise SessionError(f"{self.path}: blob {number} is missing (cut session?)")
        nbytes, packed = row
        parts = []
        for chunk in np.frombuffer(packed, "<i8").tolist():
            found = self._one("SELECT codec, nbytes, data FROM chunk WHERE id=?", (chunk,))
            if found is None or not 0 <= found[1] <= schema.CHUNK_BYTES:
                raise SessionError(f"{self.path}: chunk {chunk} is missing or out of bounds")
            parts.append(codec.decode(found[0], found[2], found[1]))
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        if len(data) != nbytes:
            raise SessionError(f"{self.path}: blob {number} has {len(data)} of {nbytes} bytes")
        return data

    def array(self, tensor: TensorRecord | int) -> npt.NDArray[Any] | None:
        """Return a tensor's final values in C order (read-only), or None if not kept."""
        record = self.tensors[tensor] if isinstance(tensor, int) else tensor
        if record.blob is None:
            return None
        try:
            flat = np.frombuffer(self.blob(record.blob), numpy_dtype(record.dtype))
            shaped: npt.NDArray[Any] = flat.reshape(record.shape)
        except (ValueError, TypeError) as error:
            raise SessionError(f"{self.path}: tensor {record.id} is damaged ({error})") from None
        return shaped

    def view(self, tensor: TensorRecord | int) -> npt.NDArray[Any] | None:
        """Return a tensor as it lay in memory: over its base bytes, with its strides."""
        record = self.tensors[tensor] if isinstance(tensor, int) else tensor
        if record.base_blob is None:
            return self.array(record)
        try:
            seen: npt.NDArray[Any] = np.ndarray(
                record.shape,
                numpy_dtype(record.dtype),
                self.blob(record.base_blob),
                record.offset,
                record.strides,
            )
        except (ValueError, TypeError) as error:
            raise SessionError(f"{self.path}: tensor {record.id} is damaged ({error})") from None
        return seen

    # -- commands ------------------------------------------------------------------------

    @cached_property
    def n_commands(self) -> int:
        """Number of commands."""
        stored: dict[str, int] | None = self._meta("commands", dict[str, int], None)
        if stored is not None:
            return stored["count"]
        row = self._one("SELECT max(last_seq) FROM command", ())
        return 0 if row is None or row[0] is None else int(row[0]) + 1

    @cached_property
    def n_cycles(self) -> int:
        """Last cycle of the run."""
        stored: dict[str, int] | None = self._meta("commands", dict[str, int], None)
        if stored is not None:
            return stored["cycles"]
        row = self._one("SELECT max(end) FROM command", ())
        return 0 if row is None or row[0] is None else int(row[0])

    def commands(self, low: int, high: int) -> Rows:
        """Return command rows with ``low <= seq < high``, clipped to what is there."""
        low, high = max(low, 0), min(high, self.n_commands)
        if low >= high:
            return np.empty(0, COMMAND)
        parts = []
        at = bisect.bisect_right(self._starts, low) - 1
        while 0 <= at < len(self._starts) and self._starts[at] < high:
            rows = self._chunk(at)
            base = self._starts[at]
            parts.append(rows[max(low - base, 0) : high - base])
            at += 1
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def command(self, seq: int) -> Any:
        """Return one command row.

        Raises:
            IndexError: There is no such command.
        """
        rows = self.commands(seq, seq + 1)
        if not len(rows):
            raise IndexError(f"no command {seq}; the session has {self.n_commands}")
        return rows[0]

    @property
    def chunk_starts(self) -> list[int]:
        """First command of each stored chunk, ascending: for scans of the whole record."""
        return self._starts

    def chunk(self, at: int) -> Rows:
        """Return the rows of the chunk at index ``at`` of :attr:`chunk_starts`."""
        return self._chunk(at)

    def coverage(self) -> Rows | None:
        """Return the ranges that each chunk writes (:data:`~npudbg.session.coverage.COVER`).

        None where the writer died before it wrote them.
        """
        stored: tuple[int, int, bytes] | None = self._meta("coverage", tuple[int, int, bytes], None)
        if stored is None:
            return None
        kind, nbytes, packed = stored
        if not 0 <= nbytes <= _MAX_COVERAGE or nbytes % COVER.itemsize:
            raise SessionError(f"{self.path}: the index of written addresses is damaged")
        return unpack_rows(codec.decode(kind, packed, nbytes), COVER)

    def accesses(self, low: int, high: int) -> Rows:
        """Return access rows (reads) of commands with ``low <= seq < high``."""
        parts = []
        for number, first, last in self._access_index:
            if first < high and last >= low:
                rows = self._access_chunk(number)
                parts.append(rows[(rows["seq"] >= low) & (rows["seq"] < high)])
        return np.concatenate(parts) if parts else np.empty(0, ACCESS)

    def payload(self, seq: int) -> bytes | None:
        """Return the very bytes that command ``seq`` wrote, where they were kept."""
        if not self._payload_seqs:
            return None
        row = self._one("SELECT blob FROM payload WHERE seq=?", (seq,))
        return None if row is None else self.blob(row[0])

    @cached_property
    def payloads(self) -> list[int]:
        """Commands whose written bytes were kept, ascending."""
        return sorted(self._payload_seqs)

    @cached_property
    def observations(self) -> list[tuple[int, int]]:
        """``(seq, operand)`` of reads that found bytes no command had written."""
        return self._all("SELECT seq, operand FROM observed ORDER BY seq, operand")

    def observed(self, seq: int, operand: int) -> bytes | None:
        """Return the operand bytes that command ``seq`` read, where they were kept."""
        row = self._one("SELECT blob FROM observed WHERE seq=? AND operand=?", (seq, operand))
        return None if row is None else self.blob(row[0])

    def seq_at_cycle(self, cycle: int) -> int:
        """Return the first command whose start is at or after ``cycle``, else the last."""
        row = self._one("SELECT min(first_seq) FROM command WHERE end>=?", (cycle,))
        if row is None or row[0] is None:
            return max(self.n_commands - 1, 0)
        for at in range(bisect.bisect_left(self._starts, row[0]), len(self._starts)):
            rows = self._chunk(at)
            hits = np.flatnonzero(rows["start"] >= cycle)
            if len(hits):
                return int(rows["seq"][hits[0]])
        return max(self.n_commands - 1, 0)

    def writers(self, space: int, address: int, nbytes: int, before: int) -> list[int]:
        """Return the commands that wrote into a range, newest first.

        Stops as soon as every byte of the range is covered, so that the answer is
        just the commands whose bytes are seen there after ``before``.

        Args:
            space: A :class:`~npudbg.session.commands.Space`.
            address: First byte.
            nbytes: Length of the range.
            before: Newest command that counts (inclusive).
        """
        missing = np.ones(nbytes, bool)
        found: list[int] = []
        for seq, low, high in self.writes(space, address, nbytes, before):
            if missing[low:high].any():
                found.append(seq)
                missing[low:high] = False
                if not missing.any():
                    break
        return found

    def writes(self, space: int, address: int, nbytes: int, before: int) -> Any:
        """Yield ``(seq, low, high)`` of writes into a range, newest first.

        ``low`` and ``high`` are relative to ``address``.
        """
        end = address + nbytes
        index = self._ranges.get(_SPACES.get(Space(space), ""))
        if index is None:
            return
        last = bisect.bisect_right(self._starts, before) - 1
        for at in range(last, -1, -1):
            low, high = index[at]
            if low >= end or high <= address:
                continue
            rows = self._chunk(at)
            hit = (
                (rows["dst_space"] == space)
                & (rows["dst"] < end)
                & (rows["dst"] + rows["nbytes"] > address)
                & (rows["seq"] <= before)
            )
            for row in rows[hit][::-1]:
                first = int(row["dst"]) - address
                yield int(row["seq"]), max(first, 0), min(first + int(row["nbytes"]), nbytes)

    # -- inside --------------------------------------------------------------------------

    @cached_property
    def _index(self) -> list[tuple[int, ...]]:
        return self._all(
            "SELECT first_seq, last_seq, sram_lo, sram_hi, ddr_lo, ddr_hi, host_lo, host_hi"
            " FROM command ORDER BY first_seq"
        )

    @cached_property
    def _starts(self) -> list[int]:
        return [row[0] for row in self._index]

    @cached_property
    def _ranges(self) -> dict[str, list[tuple[int, int]]]:
        return {
            "sram": [(r[2], r[3]) for r in self._index],
            "ddr": [(r[4], r[5]) for r in self._index],
            "host": [(r[6], r[7]) for r in self._index],
        }

    @cached_property
    def _access_index(self) -> list[tuple[int, int, int]]:
        return self._all("SELECT id, first_seq, last_seq FROM access ORDER BY id")

    @cached_property
    def _payload_seqs(self) -> frozenset[int]:
        return frozenset(row[0] for row in self._all("SELECT seq FROM payload"))

    def _chunk(self, at: int) -> Rows:
        return self._cached(
            self._rows,
            at,
            "SELECT codec, nbytes, data FROM command WHERE first_seq=?",
            self._starts[at],
            COMMAND,
        )

    def _access_chunk(self, number: int) -> Rows:
        return self._cached(
            self._access_rows,
            number,
            "SELECT codec, nbytes, data FROM access WHERE id=?",
            number,
            ACCESS,
        )

    def _cached(
        self, cache: OrderedDict[int, Rows], key: int, query: str, arg: int, dtype: np.dtype[Any]
    ) -> Rows:
        with self._lock:
            rows = cache.get(key)
            if rows is not None:
                cache.move_to_end(key)
                return rows
            found = self._one(query, (arg,))
            if found is None or not 0 <= found[1] <= _MAX_CHUNK_ROWS * dtype.itemsize:
                raise SessionError(f"{self.path}: a chunk of commands is missing or out of bounds")
            data = codec.decode(found[0], found[2], found[1])
            if len(data) % dtype.itemsize:
                raise SessionError(f"{self.path}: a chunk of commands is damaged")
            rows = unpack_rows(data, dtype)
            rows.flags.writeable = False
            cache[key] = rows
            if len(cache) > _CACHE_ROWS:
                cache.popitem(last=False)
            return rows

    def _meta(self, key: str, kind: Any, default: Any) -> Any:
        row = self._one("SELECT value FROM meta WHERE key=?", (key,))
        return default if row is None else self._decode(row[0], kind, key)

    def _table(self, table: str, kind: type[T]) -> list[T]:
        decoder = msgspec.msgpack.Decoder(kind)
        records: list[T] = []
        for number, data in self._all(f"SELECT id, data FROM {table} ORDER BY id"):
            if number != len(records):
                raise SessionError(f"{self.path}: {table} {len(records)} is missing")
            try:
                records.append(decoder.decode(data))
            except (msgspec.DecodeError, RecursionError) as error:
                raise SessionError(f"{self.path}: {table} {number} is damaged ({error})") from None
        return records

    def _decode(self, data: bytes, kind: Any, what: str) -> Any:
        if len(data) > _MAX_RECORD:
            raise SessionError(f"{self.path}: record {what} is larger than {_MAX_RECORD} bytes")
        try:
            return msgspec.msgpack.decode(data, type=kind)
        except (msgspec.DecodeError, RecursionError) as error:
            raise SessionError(f"{self.path}: record {what} is damaged ({error})") from None

    def _one(self, query: str, args: tuple[Any, ...]) -> Any:
        with self._lock:
            try:
                return self._db.execute(query, args).fetchone()
            except DAMAGE as error:
                raise SessionError(f"{self.path}: the session is damaged ({error})") from None

    def _all(self, query: str) -> list[Any]:
        with self._lock:
            try:
                return self._db.execute(query).fetchall()
            except DAMAGE as error:
                raise SessionError(f"{self.path}: the session is damaged ({error})") from None

    def _check_tables(self) -> None:
        rows = self._all("SELECT name, type FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'")
        found: dict[str, str] = dict(rows)
        missing = sorted(set(schema.TABLES) - set(found))
        if missing:
            raise SessionError(f"{self.path}: the session is cut (no table {missing[0]})")
        if any(kind != "table" for kind in found.values()):
            raise SessionError(f"{self.path}: a session holds plain tables only; not opened")
