"""One selection from any subject: what the record knows is completed, the rest left out."""

from __future__ import annotations

from npudbg.session.commands import Space
from npudbg.session.records import Subject
from npudbg.tui.selection import finding_of, of_command, resolve, step, subject_of


def test_a_tensor_gives_its_producer_first_writer_and_address(session):
    tensor = session.tensor("/backbone/blocks.4/conv2/Conv_output_0")
    for subject in (
        Subject(kind="tensor", tensor=tensor.id),
        Subject(kind="tensor", name=tensor.name),
    ):
        chosen = resolve(session, subject)
        assert (chosen.tensor, chosen.node) == (tensor.id, 18)
        assert chosen.seq == tensor.first_seq
        row = session.command(tensor.first_seq)
        assert (chosen.address, chosen.space) == (tensor.address, Space.DDR)
        assert int(row["tensor"]) == tensor.id


def test_an_input_gives_its_first_reader(session):
    chosen = resolve(session, Subject(kind="tensor", name="x"))
    assert chosen.node == 0
    assert chosen.seq == session.nodes[0].first_seq
    assert (chosen.address, chosen.space) == (0x12345000, Space.HOST)


def test_a_command_gives_node_tensor_and_where_it_wrote(session):
    for seq in (0, 1, 2, 3, session.n_commands - 1):
        row = session.command(seq)
        chosen = of_command(session, seq)
        assert chosen.seq == seq
        assert chosen.node == int(row["node"])
        assert chosen.tensor == int(row["tensor"])
        assert (chosen.address, chosen.space) == (int(row["dst"]), int(row["dst_space"]))


def test_a_node_gives_its_output_and_first_command(session):
    chosen = resolve(session, Subject(kind="node", name=session.nodes[7].label))
    assert chosen.node == 7
    assert chosen.tensor == session.nodes[7].outputs[0]
    assert chosen.seq == session.tensors[chosen.tensor].first_seq


def test_an_address_is_left_alone(session):
    chosen = resolve(session, Subject(kind="address", address=0x40, space="sram"))
    assert (chosen.address, chosen.space) == (0x40, Space.SRAM)
    assert chosen.seq is None and chosen.tensor is None and chosen.node is None


def test_numbers_that_do_not_exist_are_dropped(session):
    subject = Subject(kind="command", seq=10**9, tensor=10**9, node=10**9, name="no such")
    chosen = resolve(session, subject)
    assert (chosen.seq, chosen.tensor, chosen.node) == (None, None, None)


def test_up_prefers_the_dirty_producer_and_ends_at_the_input(session):
    chosen = resolve(session, Subject(kind="node", node=20))
    seen = []
    while (goal := step(session, chosen, up=True)) is not None:
        seen.append(goal.node)
        chosen = resolve(session, goal)
    assert seen == list(range(19, -1, -1))
    assert step(session, resolve(session, Subject(kind="node", node=23)), up=False) is None


def test_findings_by_subject(session):
    for number, finding in enumerate(session.findings):
        assert finding_of(session, finding.subject) == number
    assert finding_of(session, Subject(kind="model")) is None
    # The output's finding has no command of its own, and its related one is another tensor.
    assert subject_of(session.findings[3]) == session.findings[3].subject
