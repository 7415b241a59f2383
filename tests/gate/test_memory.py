"""Memory freed by a pass is reused for the next block; it is not returned to the system and cleared again."""

import platform
import resource
import subprocess
import sys

import pytest

ROUNDS, PAGES = 20, 2048  # number of rounds; number of memory pages freed after each round
CODE = f"""if True:
    import resource, numpy as np, pandas as pd, privstats as ps
    ps.dp_mean("x", pd.DataFrame({{"x": [0.5]}}), eps=1, domain={{"x": (0, 1)}})
    def faults():
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    def once():
        arrays = [np.ones(512 * {PAGES} // 16) for _ in range(16)]
    once()
    before = faults()
    for _ in range({ROUNDS}):
        once()
    print(faults() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the rule is that of glibc")
def test_after_a_fit_arrays_are_made_of_memory_that_was_freed():
    run = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert int(run.stdout) < ROUNDS * PAGES / resource.getpagesize() * 4096 / 10
