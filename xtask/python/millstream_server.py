"""A Millstream server of one's own: started, measured, stopped, killed."""

import os
import pathlib
import select
import signal
import subprocess
import time

# How long a server may take to start, and to stop, on a busy machine.
PATIENCE_S = 60


class Server:
    """A process of `binary` that serves on a free port of this machine, with its warehouse and its log below `folder`."""

    def __init__(self, binary, folder, *arguments, environment=None, bind="127.0.0.1:0"):
        self.binary = str(binary)
        self.folder = pathlib.Path(folder)
        self.arguments = arguments
        self.environment = environment or {}
        self.bind = bind
        self.process = None
        self.address = None
        self.folder.mkdir(parents=True, exist_ok=True)

    def start(self):
        """Returns once it listens; a server that ends instead raises what it said."""
        command = [self.binary, "serve", "--bind", self.bind, "--warehouse", str(self.folder / "warehouse"), *self.arguments]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, env={**os.environ, **self.environment})
        line = self._first_line()
        if not line.startswith("listening on sc://"):
            self.process.wait(PATIENCE_S)
            raise RuntimeError(f"the server ended with {self.process.returncode}: {self.said()}")
        self.address = line.split("sc://", 1)[1].split("/", 1)[0].strip()
        return self

    def _first_line(self):
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE_S)
        if not ready:
            self.kill()
            raise RuntimeError(f"the server did not listen within {PATIENCE_S} s: {self.said()}")
        return self.process.stdout.readline().decode()

    @property
    def log(self):
        return self.folder / "server.log"

    def said(self):
        """The end of its log."""
        return self.log.read_text(errors="replace")[-2000:] if self.log.exists() else ""

    @property
    def remote(self):
        return f"sc://{self.address}"

    @property
    def port(self):
        return int(self.address.rsplit(":", 1)[1])

    @property
    def pid(self):
        return self.process.pid

    def is_alive(self):
        return self.process is not None and self.process.poll() is None

    def memory_mib(self, what="VmRSS"):
        """What is resident, or with `VmHWM` the most since `forget_peak`."""
        for line in pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(what + ":"):
                return int(line.split()[1]) / 1024
        raise RuntimeError(f"/proc/{self.pid}/status has no {what}")

    def forget_peak(self):
        pathlib.Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def open_files(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def threads(self):
        return len(os.listdir(f"/proc/{self.pid}/task"))

    def cpu_s(self):
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def is_idle(self):
        """Whether it does next to nothing for half a second."""
        before = self.cpu_s()
        time.sleep(0.5)
        return self.cpu_s() - before < 0.1

    def freeze(self, seconds):
        """Stops the process as a paused machine would, and lets it go on."""
        os.kill(self.pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(self.pid, signal.SIGCONT)

    def stacks(self):
        """Where its threads are, for a report of a hang; empty without gdb."""
        command = ["gdb", "-p", str(self.pid), "-batch", "-ex", "set pagination off", "-ex", "thread apply all bt 30"]
        try:
            return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S).stdout
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"no stacks: {error}"

    def kill(self):
        """Ends it as a power cut would."""
        if self.is_alive():
            self.process.kill()
        self._reap()

    def stop(self):
        """Asks it to end, and returns how long that took."""
        began = time.monotonic()
        if self.is_alive():
            self.process.terminate()
        self._reap()
        return time.monotonic() - began

    def _reap(self):
        if self.process is not None:
            try:
                self.process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise RuntimeError(f"the server did not end within {PATIENCE_S} s: {self.said()}") from None
            finally:
                self.process.stdout.close()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.kill()
