from __future__ import annotations

import pytest

from firstfault.engine.investigate import investigate
from firstfault.ingest.bundle import gather_text
from firstfault.knowledge.pack import load_pack

PACK = load_pack()
STEP = "2025-11-03 02:06:12,110 step 1800 loss 2.10\n"
MESSAGE = "RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one."


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        (f"Our alert rule greps for {MESSAGE} every night.", False),
        (f"We also look for {MESSAGE}", False),
        (f"* {MESSAGE}", False),
        (f"2. {MESSAGE}", False),
        (f"[rank1]: {MESSAGE} This error indicates that your module has parameters that were not used.", True),
        (f"2025-11-03 02:07:00,001 ERROR training failed: {MESSAGE}", True),
    ],
)
def test_message_that_somebody_repeats_is_no_event(line, seen):
    found = investigate(gather_text(STEP + line + "\n", PACK, name="run.log"), PACK)
    assert (found.entry == "ddp-unused-parameters") is seen
