"""Reading metrics as Prometheus does."""
import http.client
import re
import socket
import subprocess

SAMPLE = re.compile(r"^([a-z_]+)(?:\{(.*)\})? ([0-9.e+-]+)$")
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')
OPENMETRICS = "application/openmetrics-text; version=1.0.0"


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path):
        super().__init__("localhost", timeout=60)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def get(connection, path="/metrics", accept="text/plain"):
    """(status, content type, text)"""
    connection.request("GET", path, headers={"Accept": accept})
    response = connection.getresponse()
    answer = response.status, response.getheader("Content-Type"), response.read().decode()
    connection.close()
    return answer


class Samples:
    """Samples of a text of metrics."""

    def __init__(self, text):
        self.all = []
        for line in text.splitlines():
            if line.startswith("#"):
                continue
            name, labels, value = SAMPLE.match(line).groups()
            self.all.append((name, dict(LABEL.findall(labels or "")), float(value)))

    def names(self):
        return {name for name, _, _ in self.all}

    def of(self, name, **labels):
        """(labels, value) of each sample of `name` with at least these labels."""
        return [(has, value) for known, has, value in self.all if known == name and labels.items() <= has.items()]

    def value(self, name, **labels):
        """The value of the only sample, or None without one."""
        found = self.of(name, **labels)
        if len(found) > 1:
            raise AssertionError(f"{name} {labels}: {found}")
        return found[0][1] if found else None


def check_by_promtool(text):
    """Fails if promtool finds faults in a text of metrics."""
    result = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    if result.returncode != 0 or result.stdout or result.stderr:
        raise AssertionError(f"{result.returncode}: {result.stdout}{result.stderr}\n{text}")
