"""One thread for tiny models, here and in the processes that tests start: more of them only wait for each other."""

import os

for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"
