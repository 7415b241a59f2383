# %% [markdown]
# # More rows than memory: a frame, a folder, a cluster
#
# A private fit asks for sums over rows, a few times. Where the rows lie does not matter to the fit, so that only one
# argument changes when rows outgrow the memory of a machine: `data=` is a frame, then the path of a folder of Parquet
# files, then a frame of Dask or Spark. The sums are exact whole numbers; the same rows give the same results to the
# last bit.
#
# The `ROWS` wages here are synthetic. Run the vignette with `python vignettes/big_data.py`, after
# `pip install 'privstats[dask,plot]'`; the plot is written to the current folder. Noise is seeded so that the results
# of several sources can be compared: seeded releases are not private.

# %%
from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.ticker import LogLocator, NullLocator

import privstats as ps

MU = 0.5
ROWS, FILES = 1_000_000, 8
SKILLED = 12  # persons with more than this number of years of schooling are called skilled
SIZES = (50_000, 200_000, 800_000, 3_200_000)  # numbers of rows of the timed data sets
REGIONS = ["east", "north", "south", "west"]
DOMAIN = {"log_wage": (5, 13), "educ": (0, 22), "exper": (0, 50), "region": REGIONS}
MODEL = "log_wage ~ educ + exper + I(exper**2) + region"


def wages(n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Return n rows of synthetic log wages and their predictors."""
    educ, exper = rng.integers(6, 20, n), rng.uniform(0, 45, n)
    region = rng.integers(0, len(REGIONS), n)
    centre = 8.5 + 0.08 * educ + 0.03 * exper - 0.0005 * exper**2 + 0.05 * region
    log_wage = (centre + 0.5 * rng.standard_normal(n)).clip(5, 13)
    return pd.DataFrame({"log_wage": log_wage, "educ": educ, "exper": exper, "region": np.array(REGIONS)[region]})


def store(folder: Path, n: int, rng: np.random.Generator) -> Path:
    """Write n synthetic rows to Parquet files in a folder, so that no more than one file is in memory at a time."""
    folder.mkdir()
    for k in range(FILES):
        wages(n // FILES, rng).to_parquet(folder / f"part-{k}.parquet")
    return folder


SCRATCH = tempfile.TemporaryDirectory()
FOLDER = store(Path(SCRATCH.name) / "wages", ROWS, np.random.default_rng(1))
print(f"{FILES} files of {ROWS // FILES:,} rows, {sum(file.stat().st_size for file in FOLDER.iterdir()) / 1e6:.0f} MB")

# %% [markdown]
# ## A frame
#
# All rows are in memory.

# %%
frame = pd.concat([pd.read_parquet(file) for file in sorted(FOLDER.iterdir())], ignore_index=True)
fit = ps.dp_lm(MODEL, frame, mu=MU, domain=DOMAIN, rng=1)
print(fit.summary())

# %% [markdown]
# ## A folder
#
# The path stands in place of the frame. The columns of the formula are read from the files in batches, once for each
# query of the fit; rows that were read may be kept for the next query, up to `memory_limit=`. Files that change in the
# meantime are noticed, and nothing is released.

# %%
stored = ps.dp_lm(MODEL, FOLDER, mu=MU, domain=DOMAIN, rng=1)
print("the same to the last bit:", stored.params.equals(fit.params) and stored.bse.equals(fit.bse))

# %% [markdown]
# ## A cluster
#
# A frame of Dask is read on the scheduler that is in use: here two workers of this process, elsewhere
# `Client("tcp://scheduler:8786")`. Each query is sent to the partitions, and each partition answers with whole numbers;
# no row leaves its worker. `privstats` has to be installed on the workers, too.

# %%
if find_spec("distributed") and find_spec("dask"):
    import dask.dataframe as dd
    from distributed import Client

    with Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=None):
        on_workers = ps.dp_lm(MODEL, dd.read_parquet(FOLDER), mu=MU, domain=DOMAIN, rng=1)
    print("the same to the last bit:", on_workers.params.equals(fit.params) and on_workers.bse.equals(fit.bse))
else:
    print("Dask is not installed here: pip install 'privstats[dask]'")

# %% [markdown]
# A frame of Spark is given in the same way:
#
# ```python
# rows = SparkSession.builder.getOrCreate().read.parquet("wages/")
# fit = ps.dp_lm(MODEL, rows, mu=0.5, domain=DOMAIN)
# ```
#
# If persons have several rows each (`unit="person"`), the rows of each person are first brought together in one
# partition, which needs one shuffle.
#
# ## What is not allowed before the fit
#
# The guarantee holds for the rows of the given frame. If rows were filtered or computed before, it might not protect
# the original rows. So a frame that filters, samples, joins or computes is refused, whatever its engine; use `subset=`
# to filter rows within the fit.

# %%
if find_spec("distributed") and find_spec("dask"):
    try:
        ps.dp_lm(MODEL, dd.read_parquet(FOLDER).query(f"educ > {SKILLED}"), mu=MU, domain=DOMAIN)
    except ps.PrivstatsError as error:
        print(error)
skilled = ps.dp_lm(MODEL, FOLDER, mu=MU, domain=DOMAIN, subset=f"educ > {SKILLED}", rng=1)
print(f"years of schooling, of the skilled: {skilled.params['educ']:.3f}")

# %% [markdown]
# ## Time and memory
#
# The same fit is made from frames and from folders of several sizes, each in a process of its own. The memory of a
# frame grows with its rows; the memory of a folder is constant once a batch and the kept data reach `memory_limit=`.

# %%
MEASURED = """
import json, resource, sys, time
from pathlib import Path
import pandas as pd
import privstats as ps

def peak():
    status = Path("/proc/self/status")
    for line in status.read_text().splitlines() if status.exists() else ():
        if line.startswith("VmHWM"):  # Linux hands what `resource` says on from process to process
            _, found, _ = line.split()
            return int(found)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

source, folder, few, options = json.loads(sys.argv.pop())
declared = options["domain"].items()
options["domain"] = {name: known if str in map(type, known) else tuple(known) for name, known in declared}
ps.dp_lm(data=pd.DataFrame(few), **options)
before, start = peak(), time.process_time()
ps.dp_lm(data=pd.read_parquet(folder) if source == "frame" else folder, **options)
print(json.dumps([time.process_time() - start, peak() - before]))
"""
LIMIT = 50e6  # limit of the memory for rows that are kept between passes, in bytes


def measured(source: str, folder: Path) -> tuple[float, float]:
    """Return the processor time in seconds of a fit to the rows in a folder, and its additional memory in MB.

    If `source` is "frame", all rows are read first; otherwise the fit is given the path of the folder.
    Memory of Python, of the packages and of a fit to few rows is not counted.
    """
    options = {"formula": MODEL, "mu": MU, "domain": DOMAIN, "memory_limit": LIMIT}
    few = frame.head(100).to_dict("list")
    asked = json.dumps([source, str(folder), few, options])
    done = subprocess.run([sys.executable, "-c", MEASURED, asked], capture_output=True, text=True, check=True)
    seconds, peak = json.loads(done.stdout.splitlines()[-1])
    return seconds, peak / (1e6 if sys.platform == "darwin" else 1e3)


def table() -> pd.DataFrame:
    """Return the time and memory of the fits, one row for each size and source."""
    rows = []
    for n in SIZES:
        folder = store(Path(SCRATCH.name) / f"{n}", n, np.random.default_rng(n))
        for source in ("frame", "folder"):
            seconds, peak = measured(source, folder)
            rows.append({"rows": n, "source": source, "seconds": seconds, "MB": max(peak, 1.0)})
    return pd.DataFrame(rows)


start = time.monotonic()
costs = table()
print(costs.round({"seconds": 2, "MB": 0}).to_string(index=False))
print(f"measured in {time.monotonic() - start:.0f} s")

# %%
drawing, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
for axis, what, label in zip(axes, ("seconds", "MB"), ("seconds, reading included", "MB above Python"), strict=True):
    for (source, some), style in zip(costs.groupby("source", sort=False), ("o-", "s--"), strict=True):
        axis.plot(some["rows"], some[what], style, label=source, color="black" if source == "frame" else "tab:blue")
    axis.set(xscale="log", yscale="log", xlabel="rows", ylabel=label)
    axis.set_xticks(SIZES, [f"{n:,}" for n in SIZES])
    axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.yaxis.set_major_formatter("{x:g}")
    for minor in (axis.xaxis, axis.yaxis):
        minor.set_minor_locator(NullLocator())
    axis.spines[["top", "right"]].set_visible(False)
axes[0].legend(frameon=False)
drawing.suptitle("A private fit from a frame and from a folder")
picture = Path(sys.argv[1] if len(sys.argv) > 1 else ".") / "big_data.png"
drawing.savefig(picture, dpi=150)
print(f"drawn: {picture.name}")
SCRATCH.cleanup()
