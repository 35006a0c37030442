"""The verbs: where each lives and its one line of help; importing this imports nothing."""

from __future__ import annotations

VERBS = {
    "run": ("npudbg.commands.run", "run a model on the simulated device and judge all four layers"),
    "check": ("npudbg.commands.check", "the same, always as a report: for scripts and CI"),
    "demo": ("npudbg.commands.demo", "run a bundled teaching case"),
    "replay": ("npudbg.commands.replay", "step through a saved session, forward and backward"),
    "view": ("npudbg.commands.view", "print SRAM, DMA, engines or a tensor's life of a session"),
    "fork": ("npudbg.commands.fork", "do a saved run again with something changed"),
    "compare": ("npudbg.commands.compare", "what differs between two saved runs"),
    "exec": ("npudbg.commands.exec_", "run a program and judge the arrays it gives ONNX Runtime"),
    "attach": ("npudbg.commands.attach", "join a program that runs with the agent inside"),
    "reduce": ("npudbg.commands.reduce", "cut a model down to the nodes that show the finding"),
    "sweep": ("npudbg.commands.sweep", "run a folder of inputs: which of them trigger what"),
    "advise": ("npudbg.commands.advise", "which nodes must stay in fp32 for good outputs"),
    "explain": ("npudbg.commands.explain", "what a finding's code means, why, and how to mend it"),
    "targets": (
        "npudbg.commands.targets",
        "list the targets, or show one with its sources",
    ),
}
"""Module and help line by verb, in the order in which help lists them."""

_HEAD = """\
usage: npudbg VERB …

npudbg finds the layer at fault when a model goes wrong on an edge NPU:
1 host buffer, 2 model input, 3 the device's commands, 4 output values.
"""

_TAIL = """\
options:
  -h, --help                 show this; `npudbg VERB --help` shows a verb's own
  --version                  show the version
  --print-completion SHELL   print completion for bash, zsh or tcsh

exit code: 0 no error found, 1 at least one error found, 2 wrong usage or unreadable
input, 70 a fault of npudbg itself (NPUDBG_DEBUG=1 shows where), 130 interrupted.

start with: npudbg demo
"""


def help_text(plugin_verbs: dict[str, str]) -> str:
    """Return what ``npudbg --help`` prints.

    Args:
        plugin_verbs: Help line by verb of the plugins.
    """
    rows = [("verbs", {name: text for name, (_, text) in VERBS.items()})]
    if plugin_verbs:
        rows.append(("verbs of plugins", plugin_verbs))
    width = max(len(name) for _, verbs in rows for name in verbs)
    parts = [_HEAD]
    for title, verbs in rows:
        lines = [f"  {name:{width}}  {text}" for name, text in verbs.items()]
        parts.append("\n".join([f"{title}:", *lines]) + "\n")
    return "\n".join([*parts, _TAIL])


def plugin_verbs() -> dict[str, str]:
    """Return the plugins' verbs with their help lines; no plugin is imported."""
    from npudbg.plugins.announce import verb_names

    return {name: text for name, text in verb_names().items() if name not in VERBS}
