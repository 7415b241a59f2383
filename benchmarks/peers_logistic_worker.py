"""Worker process that fits diffprivlib's LogisticRegression in a separate environment, like `peers_worker`.

Requests are lines of JSON on the standard input, {"data": path of an .npz with X and y, "eps", "norm", "C", "seed"};
answers are lines of JSON on the standard output: {"theta": intercept and slopes, "seconds"}, or {"error"} if a fit
fails. The first line of output has the package versions, {"versions"}, or the reason for which no fit is possible,
{"error"}. Nothing of privstats is imported.

The guarantee (0.6.6, logistic_regression.py) is the guarantee of objective perturbation with l2 noise for rows of norm
at most `data_norm`, an argument; by default C = 1, and the regularisation is diffprivlib's own.
"""

from __future__ import annotations

import json
import sys
import time
import warnings


def main() -> int:
    """Answer requests until the input ends; return the exit status."""
    try:
        import diffprivlib
        import numpy as np
        import sklearn
        from diffprivlib.models import LogisticRegression
    except Exception as failure:  # after any failure the benchmark goes on without diffprivlib
        print(json.dumps({"error": f"{type(failure).__name__}: {failure}"}), flush=True)
        return 1
    warnings.simplefilter("ignore")
    versions = {"diffprivlib": diffprivlib.__version__, "scikit-learn": sklearn.__version__, "numpy": np.__version__}
    print(json.dumps({"versions": versions}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        with np.load(request["data"]) as held:
            X, y = held["X"], held["y"]
        options = {} if request["C"] is None else {"C": request["C"]}
        model = LogisticRegression(
            epsilon=request["eps"], data_norm=request["norm"], random_state=request["seed"], **options
        )
        start = time.perf_counter()
        try:
            model.fit(X, y)
        except Exception as failure:  # any failure is reported in the table, not by a traceback
            print(json.dumps({"error": f"{type(failure).__name__}: {failure}"}), flush=True)
            continue
        seconds = time.perf_counter() - start
        theta = [float(model.intercept_[0]), *map(float, model.coef_[0])]
        print(json.dumps({"theta": theta, "seconds": seconds}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
