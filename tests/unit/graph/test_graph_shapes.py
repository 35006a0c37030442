"""Open axes: what the user says first, then what the inputs show, then one for the batch."""

from __future__ import annotations

import pytest
from graph_models import model, value
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from npudbg.graph.loader import from_proto
from npudbg.graph.shapes import bind
from npudbg.session.errors import UserError


def graph_of(**shapes):
    nodes = [helper.make_node("Identity", [n], [n + "_"]) for n in shapes]
    return from_proto(
        model(
            nodes,
            [value(n, s) for n, s in shapes.items()],
            [value(n + "_", s) for n, s in shapes.items()],
        )
    )


def refusal(*args):
    with pytest.raises(UserError) as caught:
        bind(*args)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_static_shapes_need_nothing():
    got = bind(graph_of(x=(1, 3)), {})
    assert (got.shapes, got.notes, got.symbols) == ({"x": (1, 3)}, (), {})


def test_first_axis_becomes_one_and_is_said_so():
    got = bind(graph_of(x=("batch", 3), y=(None, 2), z=("batch", 5)), {})
    assert got.shapes == {"x": (1, 3), "y": (1, 2), "z": (1, 5)}
    assert len(got.notes) == 2 and "--dim y.0=N" in got.notes[1]
    assert got.sources["batch"].how == "default"


def test_open_axes_are_asked_for_in_one_line():
    text = refusal(graph_of(x=("n", 3, "height", None)), {})
    assert "axes height, x.3 open" in text
    assert "--dim height=224 --dim x.3=224" in text


def test_options_by_symbol_and_by_axis():
    graph = graph_of(**{"a.b": ("n", None, "w.0")})
    got = bind(graph, {}, {"n": 2, "a.b.1": 5, "w.0": 7})
    assert got.shapes == {"a.b": (2, 5, 7)} and got.notes == ()
    assert bind(graph, {}, {"a.b.0": 4, "a.b.1": 5, "a.b.2": 7}).symbols == {"n": 4, "w.0": 7}


def test_given_shapes_bind_the_rest():
    graph = graph_of(x=("n", "t"), h=(2, "n", "t"))
    got = bind(graph, {"x": (4, 9)})
    assert got.shapes == {"x": (4, 9), "h": (2, 4, 9)}
    assert got.sources["t"].how == "input x" and got.conflicts == ()


def test_conflicts_are_reported_not_raised():
    graph = graph_of(x=("n", 3), y=("n", 3))
    got = bind(graph, {"x": (4, 3), "y": (5, 3)})
    (conflict,) = got.conflicts
    assert str(conflict) == "n is 4 by input x and 5 by input y"
    assert got.shapes == {"x": (4, 3), "y": (5, 3)} and got.expected["y"] == (4, 3)
    (conflict,) = bind(graph, {"x": (4, 3), "y": (2, 3)}, {"n": 2}).conflicts
    assert (conflict.kept.how, conflict.other.value) == ("--dim n", 4)
    (conflict,) = bind(graph_of(x=(None,)), {"x": (4,)}, {"x.0": 3}).conflicts
    assert conflict.symbol == "x.0"


def test_given_shapes_are_never_judged_here():
    got = bind(graph_of(x=("n", 3)), {"x": (7, 7, 7), "stranger": (1,)})
    assert got.shapes["x"] == (7, 7, 7) and got.expected["x"] == (None, 3)


@pytest.mark.parametrize(
    ("dims", "expected"),
    [
        ({"heigth": 3}, "did you mean height?"),
        ({"x.1": 4}, "axis 1 of 'x' is fixed at 3"),
        ({"x.9": 4}, "has 3 axes, 0 to 2"),
        ({"x." + "9" * 5000: 4}, "has 3 axes"),
        ({"x.-1": 4}, "no such axis"),
        ({"height": -1}, "a size of 0 or more"),
        ({"height": 1 << 70}, "a size of 0 or more"),
        ({"height": 3, "x.2": 4}, "two sizes"),
    ],
)
def test_options_that_mean_nothing(dims, expected):
    assert expected in refusal(graph_of(x=("n", 3, "height")), {}, dims)


def test_placeholders_do_not_tie_axes_together():
    got = bind(graph_of(x=("?", "?")), {}, {"x.0": 2, "x.1": 3})
    assert got.shapes == {"x": (2, 3)}


def test_unknown_rank_must_be_given():
    graph = graph_of(x=None)
    assert "--input x=FILE" in refusal(graph, {})
    assert bind(graph, {"x": (2, 2)}).shapes == {"x": (2, 2)}


AXES = st.lists(
    st.one_of(st.integers(1, 9), st.sampled_from(["a", "b", "c", "d"]), st.none()), max_size=4
)


@given(st.lists(AXES, min_size=1, max_size=4), st.data())
def test_whatever_agrees_binds_without_conflict(shapes, data):
    graph = graph_of(**{f"x{i}": tuple(s) for i, s in enumerate(shapes)})
    sizes = data.draw(st.fixed_dictionaries({s: st.integers(0, 99) for s in "abcd"}))
    truth, dims = {}, {}
    for i, axes in enumerate(shapes):
        row = []
        for axis, stated in enumerate(axes):
            size = sizes[stated] if isinstance(stated, str) else stated
            if size is None:
                size = dims.setdefault(f"x{i}.{axis}", data.draw(st.integers(0, 99)))
            row.append(size)
        truth[f"x{i}"] = tuple(row)
    given_ = {n: s for n, s in truth.items() if data.draw(st.booleans())}
    used = {s for axes in shapes for s in axes if isinstance(s, str)}
    seen = {s for i, axes in enumerate(shapes) if f"x{i}" in given_ for s in axes}
    dims.update({s: sizes[s] for s in used - seen})
    got = bind(graph, given_, dims)
    assert dict(got.shapes) == truth and got.conflicts == () and got.notes == ()
