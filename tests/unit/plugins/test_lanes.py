"""The lane drawing is exact: read back from its text, it gives the graph's own edges."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from npudbg_graph.lanes import MARK, Item, Row, draw

UP = set("│├┤┼╰╯┴")  # glyphs with a line that goes up from them
DOWN = set("│├┤┼╭╮┬")
LEFT = set("─┤┼╯┴╮┬")
RIGHT = set("─├┼╰┴╭┬")


def at(row: str, column: int) -> str:
    return row[column] if 0 <= column < len(row) else " "


def trace(rows: list[Row]) -> set[tuple[int, int, tuple[int, int]]]:
    """Return ``(producer, consumer, lane's start)`` for each line, from the text alone.

    A lane's start is where its tensor leaves the producer: two edges of one tensor
    share it, two tensors never do.
    """
    found = set()
    for y, row in enumerate(rows):
        if row.item is None:
            continue
        assert at(row.text, row.column) == MARK
        ends = []
        above = at(rows[y - 1].text, row.column) if y else " "
        if above in DOWN or above == MARK:
            ends.append((y - 1, row.column))
        for step, towards in ((-1, RIGHT), (1, LEFT)):
            x = row.column + step
            if at(row.text, x) != "─":
                continue
            while True:
                cell = at(row.text, x)
                if x % 2 == 0 and cell not in "─│":
                    assert cell in towards and cell in UP, (cell, x)
                    ends.append((y - 1, x))
                    if cell not in (LEFT if step < 0 else RIGHT):
                        break
                elif cell == "│":
                    # Passed unbroken: a run ends only at a corner.
                    assert at(row.text, x - step) == at(row.text, x + step) == "─"
                x += step
        for y_above, x in ends:
            found.add((*_climb(rows, y_above, x), row.item))
    return {(source, item, start) for source, start, item in found}


def _climb(rows: list[Row], y: int, x: int) -> tuple[int, tuple[int, int]]:
    """Follow a lane straight up to the node that writes it."""
    while True:
        row = rows[y]
        cell = at(row.text, x)
        if row.item is not None:
            if x == row.column:
                return row.item, (y, x)
            assert cell in "│├┤┼", f"a lane breaks at {cell!r}"
            y -= 1
            continue
        if cell == "│":
            y -= 1
            continue
        # A fork: its root stands below the node in the row above.
        node = rows[y - 1]
        assert node.item is not None
        if x == node.column:
            assert cell in "├┤┼"
            return node.item, (y, x)
        assert cell in "╭╮┬", cell
        step = 1 if node.column > x else -1
        for between in range(x + step, node.column, step):
            assert at(row.text, between) in "─│┬", "a fork is broken"
        assert at(row.text, node.column) in "├┤┼╰╯┴"
        return node.item, (y, x)


def edges_of(items: list[Item]) -> set[tuple[int, int, int]]:
    producer: dict[int, int] = {}
    for index, item in enumerate(items):
        for tensor in item.writes:
            producer.setdefault(tensor, index)
    return {
        (producer[t], index, t)
        for index, item in enumerate(items)
        for t in item.reads
        if t in producer
    }


@st.composite
def dags(draw_from, max_size: int = 30):
    """Random graphs: several outputs, many readers, dead ends, sources, skips."""
    size = draw_from(st.integers(0, max_size))
    items: list[Item] = []
    made: list[int] = []
    for _ in range(size):
        reads = draw_from(st.lists(st.sampled_from(made), max_size=4)) if made else []
        count = draw_from(st.integers(0, 3))
        writes = list(range(len(made), len(made) + count))
        made += writes
        items.append(Item(tuple(reads), tuple(writes)))
    return items


@settings(max_examples=600, deadline=None)
@given(dags(), st.integers(1, 8))
def test_every_edge_drawn_or_named_is_right(items, max_lanes):
    rows = draw(items, max_lanes=max_lanes)
    assert [r.item for r in rows if r.item is not None] == list(range(len(items)))
    true = edges_of(items)
    drawn = trace(rows)
    # One lane start is one tensor.
    tensors_from = {(a, start) for a, _, start in drawn}
    pairs = {(a, b) for a, b, _ in true}
    drawn_pairs = {(a, b) for a, b, _ in drawn}
    assert drawn_pairs <= pairs
    named = {(a, r.item) for r in rows for a in r.more_from}
    named_back = {(r.item, b) for r in rows for b in r.more_to}
    assert named == named_back
    assert drawn_pairs | named == pairs
    # Per lane, the set of readers is that of one tensor; each tensor has one lane or none.
    by_lane: dict = {}
    for a, b, start in drawn:
        by_lane.setdefault((a, start), set()).add(b)
    by_tensor: dict = {}
    for a, b, t in true:
        by_tensor.setdefault((a, t), set()).add(b)
    lanes = sorted((a, tuple(sorted(r))) for (a, _), r in by_lane.items())
    tensors = sorted((a, tuple(sorted(r))) for (a, _), r in by_tensor.items())
    for each in lanes:
        assert each in tensors
        tensors.remove(each)
    assert len(tensors_from) == len(lanes)
    if max_lanes == 8 and not named:
        assert tensors == []
    for row in rows:
        assert len(row.text) <= 2 * (max_lanes + 1) - 1


@settings(max_examples=200, deadline=None)
@given(dags(max_size=14))
def test_with_lanes_enough_every_tensor_is_drawn(items):
    rows = draw(items, max_lanes=60)
    assert not any(r.more_from or r.more_to for r in rows)
    assert len(trace(rows)) == len(edges_of(items))


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 9), max_size=4), st.lists(st.integers(0, 9), max_size=3)),
        max_size=12,
    )
)
def test_a_hostile_order_is_named_never_drawn_wrong(raw):
    """Cycles, readers before their producers, tensors written twice."""
    items = [Item(tuple(r), tuple(w)) for r, w in raw]
    rows = draw(items, max_lanes=4)
    drawn = {(a, b) for a, b, _ in trace(rows)}
    named = {(a, r.item) for r in rows for a in r.more_from}
    assert drawn | named == {(a, b) for a, b, _ in edges_of(items)}


@settings(max_examples=200, deadline=None)
@given(dags(), st.integers(1, 8))
def test_text_between_two_items_keeps_the_lanes(items, max_lanes):
    rows = draw(items, max_lanes=max_lanes)
    for y, row in enumerate(rows):
        if row.item is None:
            continue
        last = y + 1 < len(rows) and rows[y + 1].item is None and bool(rows[y + 1].text.strip("│ "))
        after = rows[y + 1 + last].text if y + 1 + last < len(rows) else ""
        for x in range(0, 2 * max_lanes + 1, 2):
            alive = at(row.below, x) == "│"
            below = at(after, x)
            assert (below in UP or below == MARK) if alive else (below not in UP)


def test_a_chain_and_a_residual():
    items = [
        Item((), (0,)),
        Item((0,), (1,)),
        Item((1,), (2,)),
        Item((1, 2), (3,)),
    ]
    assert [r.text for r in draw(items)] == ["●", "●", "├─●", "●─╯"]


def test_a_crossing_is_not_a_connection():
    # Node 3 reads lanes 0 and 2; lane 1 passes.
    items = [
        Item((), (0,)),
        Item((), (1,)),
        Item((), (2,)),
        Item((0, 2), (3,)),
        Item((1, 3), ()),
    ]
    assert [r.text for r in draw(items)] == ["●", "│ ●", "│ │ ●", "●─│─╯", "●─╯"]


def test_several_outputs_fork():
    items = [Item((), (0, 1, 2)), Item((0,), ()), Item((1,), ()), Item((2,), ())]
    assert [r.text for r in draw(items)] == ["●", "├─┬─╮", "● │ │", "  ● │", "    ●"]


def test_a_dead_end_is_not_the_next_nodes_producer():
    items = [Item((), ()), Item((), (0,)), Item((0,), ())]
    assert [(r.text, r.item) for r in draw(items)] == [("●", 0), ("", None), ("●", 1), ("●", 2)]


def test_overflow_names_both_ends():
    items = [Item((), (0,)), Item((), (1,)), Item((0,), ()), Item((1,), ())]
    rows = draw(items, max_lanes=1)
    assert [(r.more_from, r.more_to) for r in rows if r.item is not None] == [
        ((), ()),
        ((), (3,)),
        ((), ()),
        ((1,), ()),
    ]


def test_large_graphs_are_drawn_in_linear_time():
    """Twice the nodes take about twice the time (a ratio, with room for a busy machine)."""
    import time

    def seconds(count: int) -> float:
        items = [Item((), (0,))]
        for n in range(1, count):
            items.append(Item((n - 1, max(n - 7, 0)), (n,)))
        best = 9e9
        for _ in range(3):
            start = time.process_time()
            draw(items)
            best = min(best, time.process_time() - start)
        return best

    assert seconds(16_000) < 8 * seconds(4_000)
