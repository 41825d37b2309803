"""The shell in a window: a pipeline, or one job that Ctrl-Z stops and that goes on a moment later."""

import os
import signal
import subprocess
import sys
import time


def job(command):
    """Run a command in the foreground; when it is stopped, say so, wait, and bring it back."""
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)

    def in_front():
        os.setpgid(0, 0)
        os.tcsetpgrp(0, os.getpid())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)

    process = subprocess.Popen(command, preexec_fn=in_front)  # noqa: PLW1509 - there are no threads
    while True:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            return os.waitstatus_to_exitcode(status)
        os.tcsetpgrp(0, os.getpgrp())
        os.write(1, b"[1]+  Stopped\n")
        time.sleep(1)
        os.write(1, b"$ fg\n")
        os.tcsetpgrp(0, process.pid)
        os.killpg(process.pid, signal.SIGCONT)


if __name__ == "__main__":
    if "SHELL_COMMAND" in os.environ:
        sys.exit(os.waitstatus_to_exitcode(os.system(os.environ["SHELL_COMMAND"])))
    sys.exit(job([sys.executable, *sys.argv[1:]]))
