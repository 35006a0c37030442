"""Which step of a tensor's life a finding belongs to."""

from __future__ import annotations

from npudbg.session.records import Finding

ALLOCATE, FILL, WRAP, REGISTER, DMA, BIND, EXECUTE = range(1, 8)

_STEPS = {
    ALLOCATE: "H107 H110 H111 H112 H113 H114 H116",
    FILL: "H130 H131 H132 I240 I241 I242 I243 I244 I245 I246 I250 I251 I290",
    WRAP: "H101 H102 H103 H104 H105 H106 H121 H134",
    REGISTER: "H117 T350 T352 T353 T362",
    DMA: (
        "H118 I259 T301 T302 T312 T334 T341 T342 T343 T344 T345 T346 T347 T348 T349 T363 T370 T380 "
        "T382 T383"
    ),
    BIND: "T320 T332",
    EXECUTE: "T351 T381 T384",
}  # fmt: skip
_BY_CODE = {code: step for step, codes in _STEPS.items() for code in codes.split()}
_BY_LETTER = {"H": WRAP, "I": BIND, "T": EXECUTE, "O": EXECUTE}
"""For codes that are not listed, also a plugin's: the step of most of their kind."""


def step_of(finding: Finding) -> int:
    """Return the step (1 to 7) at which a finding is best read, 0 for none."""
    known = _BY_CODE.get(finding.code)
    if known is not None:
        return known
    return _BY_LETTER.get(finding.code[:1], 0) if finding.layer else 0
