"""Forks: the same run without a change, and another from the change on with one."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npudbg import cli
from npudbg.commands.demo import run_case
from npudbg.commands.forking import fork
from npudbg.commands.pipeline import Job, run_job
from npudbg.commands.teaching import CASES
from npudbg.session.commands import Kind
from npudbg.session.errors import SessionError, UserError
from npudbg.session.pokes import parse_data
from npudbg.session.reader import Session
from npudbg.session.rerun import Changes, Poke

SAVED = Path(__file__).parents[3] / "sessions"
MODEL = Path(__file__).parents[2] / "data" / "models" / "f_fp16.onnx"
NAN = struct.pack("<f", float("nan"))


@pytest.fixture
def clean(tmp_path: Path) -> Iterator[Session]:
    with Session.open(run_case("clean", save=str(tmp_path / "clean.npudbg")).path) as session:
        yield session


@pytest.fixture
def frame(tmp_path: Path) -> str:
    path = tmp_path / "x.npy"
    np.save(path, np.random.default_rng(1).uniform(-255, 255, (1, 3, 32, 32)).astype("f4"))
    return str(path)


def forked(session: Session, tmp_path: Path, name: str = "fork", **changes: Any) -> Session:
    judged = fork(session, Changes(**changes), save=str(tmp_path / f"{name}.npudbg"))
    return Session.open(judged.path)


def test_a_fork_says_that_other_versions_compute(
    tmp_path: Path, clean: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    with forked(clean, tmp_path, "same") as again:
        assert not any("recorded with" in note for note in again.meta.notes)
    monkeypatch.setattr("npudbg.backends.simulated.libraries", lambda: {"numpy": "99.1"})
    with forked(clean, tmp_path) as again:
        assert again.meta.notes[-1] == (
            f"fork: recorded with numpy {np.__version__}, now 99.1; "
            "results may differ in the last bits"
        )


def load_of(session: Session, tensor: str) -> Any:
    """The LOAD of a tensor into SRAM for a node."""
    number = session.tensor(tensor).id
    rows = session.commands(0, session.n_commands)
    hit = rows[(rows["kind"] == Kind.DMA_LOAD) & (rows["tensor"] == number) & (rows["node"] >= 0)]
    return hit[0]


def same(a: Session, b: Session) -> None:
    rows = [s.commands(0, s.n_commands) for s in (a, b)]
    assert rows[0].tobytes() == rows[1].tobytes()
    accesses = [s.accesses(0, s.n_commands) for s in (a, b)]
    assert accesses[0].tobytes() == accesses[1].tobytes()
    assert [t.name for t in a.tensors] == [t.name for t in b.tensors]
    for one, other in zip(a.tensors, b.tensors, strict=True):
        assert (one.shape, one.strides, one.dtype, one.address, one.address_origin) == (
            other.shape, other.strides, other.dtype, other.address, other.address_origin,
        )  # fmt: skip
        np.testing.assert_array_equal(a.view(one), b.view(other))
    told = [[(f.code, f.severity, f.subject, f.message) for f in s.findings] for s in (a, b)]
    assert told[0] == told[1]
    assert a.status == b.status
    assert a.counters == b.counters


@pytest.mark.parametrize("name", CASES)
def test_a_fork_without_a_change_is_the_same_run(name: str, tmp_path: Path) -> None:
    path = run_case(name, save=str(tmp_path / "run.npudbg")).path
    with Session.open(path) as session, forked(session, tmp_path) as again:
        same(session, again)


def test_a_saved_teaching_session_forks_too(tmp_path: Path) -> None:
    with Session.open(SAVED / "f-order.npudbg") as session, forked(session, tmp_path) as again:
        assert again.view(again.tensor("image")).strides == (4, 4, 12, 480)
        assert again.verdict == session.verdict


def test_a_run_of_a_file_with_all_its_options(
    frame: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, again = str(tmp_path / "run.npudbg"), str(tmp_path / "again.npudbg")
    half = tmp_path / "k.npy"
    np.save(half, np.array([0.5], "f4"))
    argv = ["check", str(MODEL), frame, "--precision", "fp16", "--cast", "sq=fp32", "--set",
            f"k={half}", "--host-address", "input=0x10040", "--scale", "1/255", "--fault",
            "dropped-dma:tensor=k", "--save", run]  # fmt: skip
    code = cli.main(argv)
    half.unlink()  # the session has kept its values
    Path(frame).unlink()
    assert cli.main(["fork", run, "--save", again, "--headless"]) == code
    capsys.readouterr()
    with Session.open(run) as a, Session.open(again) as b:
        same(a, b)
        assert b.tensor("sq").dtype == "<f4"
        assert b.tensor("input").address == 0x10040
        assert b.meta.precision == "fp16"


def test_int8_with_calibration_is_the_same_run(frame: str, tmp_path: Path) -> None:
    folder = tmp_path / "calib"
    folder.mkdir()
    np.save(folder / "one.npy", np.load(frame))
    job = Job(
        str(MODEL), [frame], precision="int8", calib=str(folder), save=str(tmp_path / "s.npudbg")
    )
    with Session.open(run_job(job).path) as session:
        (folder / "one.npy").unlink()
        with forked(session, tmp_path) as again:
            same(session, again)
            assert again.extra("calibration") == session.extra("calibration")


def test_a_nan_in_sram_is_found_in_the_fork(clean: Session, tmp_path: Path) -> None:
    load = load_of(clean, "stem/bn.mean")
    poke = Poke(after=int(load["seq"]), space="sram", address=int(load["dst"]), data=NAN)
    with forked(clean, tmp_path, pokes=(poke,)) as session:
        codes = [f.code for f in session.findings if f.severity == "error"]
        assert codes == ["T344", "O401", "O402"]
        assert session.verdict.code == "T344"
        assert f"they were set after command {int(load['seq'])}" in session.verdict.summary
        # The mean of channel 0 alone is NaN, and so is that channel alone: 20 x 20.
        values = session.array(session.tensor("stem/act"))
        assert np.isnan(values[0, 0]).all() and not np.isnan(values[0, 1:]).any()
        assert np.isnan(session.array(session.tensor("scores"))).all()
        # All commands are those of the clean run: their numbers, times and addresses.
        rows = [s.commands(0, s.n_commands) for s in (clean, session)]
        for column in ("kind", "start", "end", "src", "dst", "nbytes", "node", "tensor"):
            np.testing.assert_array_equal(rows[0][column], rows[1][column])
        assert session.meta.notes[-1] == (
            f"fork: 4 bytes written at sram:{int(load['dst']):#x} after command {load['seq']}"
        )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clean run of today's libraries: saved ones may differ in the last bits."""
    return run_case("clean", save=str(tmp_path_factory.mktemp("made") / "clean.npudbg")).path


@settings(max_examples=20)
@given(data=st.data())
def test_the_same_bytes_over_themselves_change_nothing(made: Path, data: st.DataObject) -> None:
    """A run that is executed byte by byte is the run that is not."""
    with Session.open(made) as session:
        rows = session.commands(0, session.n_commands)
        loads = rows[(rows["kind"] == Kind.DMA_LOAD) & (rows["node"] >= 0)]
        row = loads[data.draw(st.integers(0, len(loads) - 1))]
        from npudbg.session.memory.written import Written

        held = Written(session).packed(row).tobytes()
        start = data.draw(st.integers(0, len(held) - 1))
        poke = Poke(
            after=int(row["seq"]), space="sram", address=int(row["dst"]) + start,
            data=held[start : start + 16],
        )  # fmt: skip
        judged = fork(session, Changes(pokes=(poke,)))
        try:
            with Session.open(judged.path) as again:
                assert again.commands(0, 10**6).tobytes() == rows.tobytes()
                assert again.findings == session.findings
        finally:
            judged.path.unlink()


def test_a_flip_is_undone_by_a_second_one(clean: Session, tmp_path: Path) -> None:
    load = load_of(clean, "fc.weight")
    flip = Poke(
        after=int(load["seq"]), space="sram", address=int(load["dst"]), data=b"\x00\x00\x00\x80",
        flip=True,
    )  # fmt: skip
    with forked(clean, tmp_path, pokes=(flip,)) as once:
        got, want = (s.array(s.tensor("logits")) for s in (once, clean))
        features = clean.array(clean.tensor("features"))
        weight = clean.array(clean.tensor("fc.weight"))
        # Only the sign of the first weight: logit 0 loses that product twice.
        lost = 2 * features[0, 0].astype("f8") * weight[0, 0]
        np.testing.assert_allclose(got[0, 0], want[0, 0] - lost, rtol=1e-4, atol=1e-6)
        np.testing.assert_array_equal(got[0, 1:], want[0, 1:])
        with forked(once, tmp_path, "twice", pokes=(flip,)) as twice:
            np.testing.assert_array_equal(twice.array(twice.tensor("logits")), want)


def test_bytes_in_ddr_strike_a_host_operator(tmp_path: Path) -> None:
    """Poked while the host waits for its operand, or after it has computed."""
    with Session.open(SAVED / "unsupported-operator.npudbg") as session:
        rows = session.commands(0, session.n_commands)
        host = rows[rows["kind"] == Kind.HOST][0]
        act, scores = (session.tensor(n) for n in ("act", "scores"))

        def nans(after: int, address: int) -> int:
            poke = Poke(after=after, space="ddr", address=address, data=NAN)
            judged = fork(session, Changes(pokes=(poke,)), save=str(tmp_path / "s.npudbg"))
            return int(np.isnan(judged.outputs["scores"]).sum())

        seq = int(host["seq"])
        assert nans(seq - 1, act.address) == scores.shape[-1]  # one row of the operand
        assert nans(seq, act.address) == 0  # it has been read by then
        assert nans(seq - 1, scores.address) == 0  # and is written after
        assert nans(seq, scores.address) == 1
        staged = session.tensor("tokens@ddr")
        with pytest.raises(UserError, match="puts an input there"):
            nans(0, staged.address)
        assert nans(1, staged.address) == scores.shape[-1]


def test_what_moved_is_kept_where_ddr_was_changed_behind_the_record(tmp_path: Path) -> None:
    with Session.open(SAVED / "unsupported-operator.npudbg") as session:
        staged = session.tensor("tokens@ddr")
        poke = Poke(after=1, space="ddr", address=staged.address, data=NAN)
        with forked(session, tmp_path, pokes=(poke,)) as other:
            np.testing.assert_array_equal(
                other.array(other.tensor("tokens@ddr")), session.array(staged)
            )
            (found,) = [f for f in other.findings if f.code == "T348"]
            assert found.evidence["set_after"] == 1 and "set clear" in found.fix
            load = int(load_of(other, "tokens@ddr")["seq"])
            assert other.payload(load)[:4] == NAN


def test_tensors_precisions_and_faults(frame: str, tmp_path: Path) -> None:
    job = Job(str(MODEL), [frame], precision="fp16", save=str(tmp_path / "s.npudbg"))
    with Session.open(run_job(job).path) as session:
        assert session.verdict.code == "O401"
        with forked(session, tmp_path, "a", raised=frozenset({"sq", "mean"})) as wide:
            assert wide.verdict.layer == 0
            assert wide.tensor("sq").dtype == "<f4"
        ones = np.full((1, 3, 32, 32), 2.0, "f4")
        with forked(session, tmp_path, "b", replace={"m": ones}) as other:
            assert (other.array(other.tensor("out")) == 2.0).all()
            # The fork of a fork keeps what its parent changed.
            with forked(other, tmp_path, "c", raised=frozenset({"sq"})) as third:
                assert (third.array(third.tensor("m")) == 2.0).all()
        with forked(session, tmp_path, "d", faults=("hang:node=sq",)) as hung:
            assert hung.status == "hung"
            with forked(hung, tmp_path, "e", without=("hang",)) as freed:
                same(freed, session)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"pokes": (Poke(after=54, space="sram", address=0, data=b"1"),)}, "no command 54"),
        ({"pokes": (Poke(after=-1, space="sram", address=0, data=b"1"),)}, "no command -1"),
        ({"pokes": (Poke(after=3, space="sram", address=2**21 - 1, data=b"12"),)}, "do not lie in"),
        ({"pokes": (Poke(after=3, space="ddr", address=0, data=b"12"),)}, "do not lie in ddr"),
        ({"pokes": (Poke(after=3, space="sram", address=0, data=b""),)}, "0 bytes"),
        ({"without": ("hang",)}, "recorded run has none"),
        ({"faults": ("hang:node=nope",)}, "no node 'nope'"),
        ({"faults": ("hangs",)}, "no such fault"),
        ({"raised": frozenset({"/stem"})}, "/stem"),
        ({"replace": {"gapp": np.ones(1)}}, "did you mean gap"),
    ],
)
def test_what_does_not_fit_is_one_line(
    clean: Session, tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    assert clean.n_commands == 54
    goal = tmp_path / "no.npudbg"
    with pytest.raises(UserError, match=said) as caught:
        fork(clean, Changes(**changes), save=str(goal))
    assert "\n" not in str(caught.value)
    assert not goal.exists()


def test_a_model_that_changed_or_moved(frame: str, tmp_path: Path) -> None:
    model = tmp_path / "m.onnx"
    model.write_bytes(MODEL.read_bytes())
    job = Job(str(model), [frame], save=str(tmp_path / "s.npudbg"))
    with Session.open(run_job(job).path) as session:
        model.write_bytes(MODEL.read_bytes() + b"\x12\x01x")  # another producer's name
        with pytest.raises(UserError, match="not the model of this session any more"):
            fork(session, Changes())
        model.unlink()
        with pytest.raises(UserError, match=r"m\.onnx"):
            fork(session, Changes())
        judged = fork(session, Changes(), model=str(MODEL), save=str(tmp_path / "f.npudbg"))
        assert judged.verdict == session.verdict


def test_sessions_that_cannot_be_done_again(frame: str, tmp_path: Path) -> None:
    import sqlite3

    import msgspec

    job = Job(str(MODEL), [frame], save=str(tmp_path / "bare.npudbg"), keep_data=False)
    with (
        Session.open(run_job(job).path) as session,
        pytest.raises(UserError, match="values of input input are not in the session"),
    ):
        fork(session, Changes())
    path = run_job(Job(str(MODEL), [frame], save=str(tmp_path / "s.npudbg"))).path

    def amended(value: Any) -> None:
        with sqlite3.connect(path) as db:
            packed = msgspec.msgpack.encode(value)
            db.execute("UPDATE meta SET value=? WHERE key='extra:rerun'", (packed,))
        db.close()
        with Session.open(path) as session:
            fork(session, Changes())

    for wrong in (
        7, {"fused": 3}, {"pokes": [{"after": 1}]}, {"preprocessing": {"x": {"mean": "no"}}},
        {"replaced": {"k": {"blob": 10**6, "dtype": "<f4", "shape": [1]}}},
        {"replaced": {"k": {"blob": 0, "dtype": "|O", "shape": [1]}}},
        {"replaced": {"k": {"blob": 0, "dtype": "<f4", "shape": [7, -3]}}},
    ):  # fmt: skip
        with pytest.raises(SessionError):
            amended(wrong)
    with pytest.raises(UserError, match="record it again"):
        amended(None)


class TestBytes:
    @pytest.mark.parametrize(
        ("text", "data", "flip"),
        [
            ("01 02", b"\x01\x02", False),
            ("0x0102fF", b"\x01\x02\xff", False),
            ("^80", b"\x80", True),
            ("f32:1.5", b"\x00\x00\xc0\x3f", False),
            ("f16:nan,1", b"\x00\x7e\x00\x3c", False),
            ("f16:1e9", b"\x00\x7c", False),
            ("i16:-1,0x10", b"\xff\xff\x10\x00", False),
            ("^u8:255", b"\xff", True),
        ],
    )
    def test_meant(self, text: str, data: bytes, flip: bool) -> None:
        assert parse_data(text) == (data, flip)

    @pytest.mark.parametrize(
        "text", ["", "^", "1", "0g", "f32:", "f32:one", "u8:256", "i8:-129", "f8:1", "x" * 10**7]
    )
    def test_not_meant(self, text: str) -> None:
        with pytest.raises(UserError) as caught:
            parse_data(text)
        assert "\n" not in str(caught.value) and len(str(caught.value)) < 200

    @given(st.text(max_size=30))
    def test_anything(self, text: str) -> None:
        try:
            data, _ = parse_data(text)
        except UserError:
            return
        assert data

    @given(st.binary(min_size=1, max_size=40))
    def test_hex_round_trip(self, data: bytes) -> None:
        assert parse_data(data.hex(" ")) == (data, False)


class TestVerb:
    def test_pokes_and_saves(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        goal = tmp_path / "f.npudbg"
        argv = ["fork", str(SAVED / "clean.npudbg"), "--save", str(goal), "--json"]
        with Session.open(SAVED / "clean.npudbg") as session:
            load = load_of(session, "stem/bn.mean")
        poke = f"{load['seq']}:sram:{int(load['dst']):#x}=f32:nan"
        assert cli.main([*argv, "--poke", poke]) == 1
        assert '"T344"' in capsys.readouterr().out
        assert cli.main(argv) == 0

    @pytest.mark.parametrize(
        ("argv", "said"),
        [
            (["--poke", "sram:0x100=01"], "expected N:SPACE:ADDRESS=BYTES"),
            (["--poke", "1:host:0x100=01"], "expected N:SPACE:ADDRESS=BYTES"),
            (["--poke", "1:sram:0x100=zz"], "expected bytes in hex"),
            (["--poke", "1:sram:0x100=\x1b[2J"], "--poke 1:sram:0x100=?[2J"),
            (["--no-fault", "hang"], "to leave out"),
            (["--set", "gap=/no/such.npy"], "such.npy"),
        ],
    )
    def test_mistakes(self, argv: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert cli.main(["fork", str(SAVED / "clean.npudbg"), "--headless", *argv]) == 2
        err = capsys.readouterr().err
        assert said in err and err.count("\n") == 1

    def test_never_over_the_session_itself(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "s.npudbg"
        path.write_bytes((SAVED / "clean.npudbg").read_bytes())
        assert cli.main(["fork", str(path), "--save", str(path), "--headless"]) == 2
        assert "would replace the session" in capsys.readouterr().err
