"""What tests must not inherit from where they are started, here and in the processes that they start."""

import os
import signal

import pytest

# One thread for tiny models: more of them only wait for each other.
for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

# A shell starts its background jobs with SIGINT ignored, nohup its own with SIGHUP ignored, and an ignored signal
# stays so in every child.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session", autouse=True)
def cache_of_its_own(tmp_path_factory):
    """What a run learns and converts is for this session only."""
    os.environ["SPECGEN_CACHE"] = str(tmp_path_factory.mktemp("cache"))
