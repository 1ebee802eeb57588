#!/usr/bin/python3
"""Metrics of a terraced of the test's own, with jobs that page.

    metrics.py tables       docs/metrics.md and the dashboard name what terraced says, no more and no less
    metrics.py parser       the strict OpenMetrics parser of python3-prometheus-client reads all of it
    metrics.py prometheus   a real Prometheus scrapes a port while jobs come and go, and has their series
    metrics.py proxy        the same of a Unix socket, behind socat
    metrics.py handed_over  sockets that a service manager opened, as terraced-metrics.socket says
"""
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # waiting.py
from waiting import Failed, check, wait_for

SOURCE = Path(os.environ["TERRACE_SOURCE"])
MIB = 2**20
HOSTILE_NAME = 'a"} 1\\ \u00e9{b="c'


class Skipped(Exception):
    pass


# ---- the job ------------------------------------------------------------------------------------------------

def job(end):
    """Twice its budget in blocks, read over and over until the file `end` is there."""
    blocks = [bytearray(os.urandom(16 * MIB)) for _ in range(8)]
    while not Path(end).exists():
        for block in blocks:
            block[::4096] = bytes(len(block) // 4096)


# ---- what the test does with it -----------------------------------------------------------------------------

class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=30)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(30)
        self.sock.connect(self.path)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


class Machine:
    """A directory with a terraced and jobs in it, which end with it."""

    def __init__(self, directory, listen):
        self.directory = Path(directory)
        self.socket = self.directory / "d.sock"
        self.listen = str(listen)
        self.processes = []
        config = self.directory / "terraced.toml"
        config.write_text(f'[metrics]\nlisten = "{listen}"\n', encoding="utf-8")
        self.command = [os.environ["TERRACE_BIN"] + "d", "--config", str(config), "--socket", str(self.socket), "--dram", "512M",
                        "--per-user", "100%", "--pool", str(directory), "--pool-size", "2G"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()

    def start(self, command, **how):
        log = open(self.directory / "log", "a", encoding="utf-8")
        self.processes.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **how))
        return self.processes[-1]

    def log(self):
        return (self.directory / "log").read_text(encoding="utf-8")

    def start_daemon(self):
        daemon = self.start(self.command)
        wait_for(lambda: self.socket.exists() and self.text(), "terraced")
        return daemon

    def start_job(self, name):
        """Once it has paged. Where it cannot, there is nothing to see."""
        self.start([os.environ["TERRACE_BIN"], "run", "--socket", str(self.socket), "--name", name, "--dram", "64M", "--",
                    sys.executable, __file__, "--job", str(self.directory / f"end-{len(self.processes)}")])
        end = self.directory / f"end-{len(self.processes) - 1}"
        process = self.processes[-1]

        def has_paged():
            check(process.poll() is None, f"the job ended: {self.log()}")
            if "runs on plain memory" in self.log():
                raise Skipped(f"no pager here: {self.log()}")
            return self.value("terrace_job_read_bytes_total", job_name=name) > 0

        wait_for(has_paged, f"reads of job {name}")
        return process, end

    def end_job(self, started):
        process, end = started
        end.touch()
        check(process.wait(60) == 0, f"the job failed: {self.log()}")

    def get(self):
        where = self.listen
        connection = UnixConnection(where) if where.startswith("/") else http.client.HTTPConnection(where, timeout=30)
        try:
            connection.request("GET", "/metrics")
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        check(answer.status == 200, f"status {answer.status}: {text}")
        kind = answer.getheader("Content-Type")
        check(kind == "application/openmetrics-text; version=1.0.0; charset=utf-8", f"content type {kind}")
        return text

    def text(self):
        try:
            return self.get()
        except (ConnectionError, FileNotFoundError):
            return ""

    def value(self, name, **labels):
        """Of the first series with these labels; 0: there is none."""
        for series, value in samples(self.get()):
            said = dict(labels_of(series))
            if series.split("{")[0] == name and all(said.get(k) == v for k, v in labels.items()):
                return float(value)
        return 0


def samples(text):
    return [line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")]


def unescaped(value):
    return re.sub(r"\\(.)", lambda found: {"n": "\n"}.get(found[1], found[1]), value)


def labels_of(series):
    return [(name, unescaped(value)) for name, value in re.findall(r'([a-z_]+)="((?:[^"\\]|\\.)*)"', series)]


def said_by(text):
    """Each family with its type and the labels of its samples."""
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    labels = {name: set() for name in types}
    for series, _ in samples(text):
        name = re.sub(r"_(total|info)$", "", series.split("{")[0])
        labels[name] |= {label for label, _ in labels_of(series)}
    return {name: (kind, labels[name]) for name, kind in types.items()}


# ---- cases --------------------------------------------------------------------------------------------------

def documented():
    """The rows of the tables of docs/metrics.md: a metric's name as Prometheus has it, its type and its labels."""
    rows = re.findall(r"^\| `(terrace_\w+)` \| (\w+) \| ([^|]*) \|", (SOURCE / "docs/metrics.md").read_text(encoding="utf-8"),
                      re.MULTILINE)
    return {name: (kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}


def dashboard_of_sources():
    return json.loads((SOURCE / "daemon/metrics/grafana-dashboard.json").read_text(encoding="utf-8"))


def queries_of(dashboard):
    return [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]


def check_dashboard(known):
    """Every name and every label in its queries."""
    dashboard = dashboard_of_sources()
    queries = queries_of(dashboard)
    queries += [each["query"]["query"] for each in dashboard["templating"]["list"] if isinstance(each["query"], dict)]
    check(len(queries) > 30, "the dashboard has no queries")
    of_prometheus = {"instance"}
    for query in queries:
        names = re.findall(r"\bterrace_\w+", query)
        check(names, f"no metric in {query}")
        allowed = set.intersection(*(known.get(name, ("", set()))[1] for name in names)) | of_prometheus
        for name in names:
            check(name in known, f"the dashboard asks for {name}, which terraced does not say")
        used = set(re.findall(r'(\w+)=~?"', query)) | set(re.findall(r", (\w+)\)$", query))
        for group in re.findall(r"by \(([^)]*)\)", query):
            used |= set(re.split(r", *", group))
        check(used <= allowed, f"labels {used - allowed} are not of {names}: {query}")
    for panel in dashboard["panels"]:
        grouped = [set(re.split(r", *", group)) for target in panel["targets"] for group in re.findall(r"by \(([^)]*)\)", target["expr"])]
        for target in panel["targets"]:
            legend = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            check(not legend or any(legend <= group for group in grouped), f"{panel['title']}: the legend {legend} is of nothing")


def tables(directory):
    with Machine(directory, Path(directory) / "m.sock") as machine:
        machine.start_daemon()
        said = said_by(machine.get())
    suffix = {"counter": "_total", "info": "_info"}
    said = {name + suffix.get(kind, ""): (kind, labels) for name, (kind, labels) in said.items()}
    known = documented()
    check(set(said) == set(known), f"only in docs/metrics.md or only said: {set(said) ^ set(known)}")
    for name, (kind, labels) in said.items():
        check(known[name][0] == kind, f"{name} is a {kind}")
        check(labels <= known[name][1], f"{name} has the labels {labels}")
    check_dashboard(known)


def parser(directory):
    try:
        from prometheus_client.openmetrics.parser import text_string_to_metric_families
    except ImportError:
        raise Skipped("python3-prometheus-client is not installed") from None
    with Machine(directory, Path(directory) / "m.sock") as machine:
        machine.start_daemon()
        machine.end_job(machine.start_job(HOSTILE_NAME))
        machine.start_job("second")
        families = list(text_string_to_metric_families(machine.get()))
    read = [s for f in families for s in f.samples if s.name == "terrace_job_read_bytes_total" and s.value > 0]
    check({s.labels["job_name"] for s in read} == {HOSTILE_NAME, "second"}, f"other jobs read: {read}")
    try:
        list(text_string_to_metric_families("# TYPE a counter\na 1\n# EOF\n"))
    except ValueError:
        return
    raise Failed("the parser is not strict")


class Prometheus:
    """One that scrapes `target` every second."""

    def __init__(self, machine, target):
        for name in ("prometheus", "promtool"):
            if not shutil.which(name):
                raise Skipped(f"{name} is not installed")
        self.url = f"http://127.0.0.1:{free_port()}"
        settings = machine.directory / "prometheus.yml"
        settings.write_text("global:\n  scrape_interval: 1s\nscrape_configs:\n- job_name: terrace\n  static_configs:\n"
                            f"  - targets: ['{target}']\n", encoding="utf-8")
        checked = subprocess.run(["promtool", "check", "config", str(settings)], capture_output=True, text=True, check=False)
        check(checked.returncode == 0, f"promtool: {checked.stdout}{checked.stderr}")
        machine.start(["prometheus", f"--config.file={settings}", f"--storage.tsdb.path={machine.directory / 'tsdb'}",
                       f"--web.listen-address={self.url[7:]}", "--log.level=warn"])
        wait_for(lambda: self.query("up") == [1.0], "a scrape")

    def query(self, expression):
        """The values; none where Prometheus is not there yet."""
        url = f"{self.url}/api/v1/query?" + urllib.parse.urlencode({"query": expression})
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return [float(each["value"][1]) for each in json.load(answer)["data"]["result"]]
        except urllib.error.HTTPError as error:
            if error.code == http.HTTPStatus.SERVICE_UNAVAILABLE:  # it is starting
                return []
            raise Failed(f"Prometheus refuses {expression}: {error.read().decode()}") from None
        except OSError:
            return []


def check_promtool(text):
    """Its linter reads the older text format: there a counter's family is named with its suffix, and units do not exist."""
    suffix = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    lines = []
    for line in text.splitlines():
        words = line.split(" ", 3)
        if line.startswith(("# UNIT", "# EOF")):
            continue
        if line.startswith("#"):
            kind = suffix[words[2]]
            words[2] += {"counter": "_total", "info": "_info"}.get(kind, "")
            words[3] = words[3].replace("info", "gauge") if words[1] == "TYPE" else words[3]
        lines.append(" ".join(words) if line.startswith("#") else line)
    done = subprocess.run(["promtool", "check", "metrics"], input="\n".join(lines) + "\n", capture_output=True, text=True, check=False)
    check(done.returncode == 0, f"promtool check metrics: {done.stdout}{done.stderr}")


def check_dashboard_shows(prometheus):
    """Its queries, as Grafana would ask them with all machines, users and jobs chosen."""
    empty = []
    queries = queries_of(dashboard_of_sources())
    for query in queries:
        asked = query.replace("$__rate_interval", "10s")
        asked = re.sub(r"\$(instance|uid|job_name)\b", ".*", asked)
        if not prometheus.query(asked):
            empty.append(query)
    # There is no GPU here, and no limit of writes; what the drive took beyond all reports may be unknown.
    absent = [query for query in empty if not re.search(r'tier="gpu"|writes_left|unreported_today', query)]
    check(not absent, f"the dashboard shows nothing for {absent}")
    check(len(empty) < len(queries) / 4, f"the dashboard shows little: nothing for {empty}")


def scraped(machine, target):
    prometheus = Prometheus(machine, target)
    started = machine.start_job(HOSTILE_NAME)
    series = 'terrace_job_read_bytes_total{job_name=' + json.dumps(HOSTILE_NAME, ensure_ascii=False) + "}"
    wait_for(lambda: (prometheus.query(series) or [0])[0] > 0, "the job's reads in Prometheus")
    wait_for(lambda: (prometheus.query(f"sum(rate({series}[10s]))") or [0])[0] > 0, "their rate")
    check_dashboard_shows(prometheus)
    machine.end_job(started)
    wait_for(lambda: prometheus.query("terrace_jobs") == [0.0], "no job")
    check(prometheus.query(series)[0] > 0, "the totals of the job that ended are gone")
    for number in range(0, 100, 10):  # they come and go between two scrapes, or not
        short = [machine.start([os.environ["TERRACE_BIN"], "run", "--socket", str(machine.socket), "--name", f"short{number + i}", "--",
                                sys.executable, "-c", "b = bytearray(16 << 20)"]) for i in range(10)]
        for each in short:
            check(each.wait(60) == 0, f"a short job: {machine.log()}")
    wait_for(lambda: (prometheus.query("terrace_sessions_joined_total") or [0])[0] >= 101, "101 sessions")
    check(prometheus.query("up") == [1.0], "scrapes fail")
    counters = [name for name, (kind, _) in said_by(machine.get()).items() if kind == "counter"]
    check(len(counters) > 30, f"few counters: {counters}")
    for name in counters:
        check(prometheus.query(f"max(resets({name}_total[5m]))") == [0.0], f"{name}_total fell")


def prometheus(directory):
    with Machine(directory, f"127.0.0.1:{free_port()}") as machine:
        machine.start_daemon()
        scraped(machine, machine.listen)
        check_promtool(machine.get())


def proxy(directory):
    if not shutil.which("socat"):
        raise Skipped("socat is not installed")
    port = free_port()
    with Machine(directory, Path(directory) / "m.sock") as machine:
        machine.start_daemon()
        machine.start(["socat", f"TCP-LISTEN:{port},bind=127.0.0.1,reuseaddr,fork", f"UNIX-CONNECT:{machine.listen}"])
        scraped(machine, f"127.0.0.1:{port}")


HAND_OVER = """
import os, socket, sys
control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
control.bind(sys.argv[1])
metrics = socket.create_server((sys.argv[2], int(sys.argv[3])))
for end in (control, metrics):
    end.listen()
for number, end in enumerate((metrics, control), start=64):
    os.dup2(end.fileno(), number)
os.dup2(64, 3), os.dup2(65, 4)
os.environ.update(LISTEN_FDS="2", LISTEN_PID=str(os.getpid()))
os.closerange(5, 256)
os.execv(sys.argv[4], sys.argv[4:])
"""


def handed_over(directory):
    port, unused = free_port(), Path(directory) / "unused.sock"
    with Machine(directory, unused) as machine:
        machine.listen = f"127.0.0.1:{port}"

        def start(host):
            machine.socket.unlink(missing_ok=True)
            daemon = machine.start([sys.executable, "-c", HAND_OVER, str(machine.socket), host, str(port), *machine.command])
            wait_for(lambda: subprocess.run([os.environ["TERRACE_BIN"], "status", "--socket", str(machine.socket)],
                                            capture_output=True, check=False).returncode == 0, "terraced")
            return daemon

        daemon = start("127.0.0.1")
        check("\nterrace_jobs 0\n" in machine.get(), "no metrics on the socket that was handed over")
        check(f"{unused} is not used" in machine.log() and not unused.exists(), f"metrics in two places: {machine.log()}")
        daemon.send_signal(signal.SIGTERM)
        check(daemon.wait(30) == 0, f"did not end in order: {machine.log()}")
        start("0.0.0.0")
        wait_for(lambda: "can be reached from other machines" in machine.log(), "a refusal of an open address")
        check(machine.text() == "", "metrics are served to other machines")


CASES = {"tables": tables, "parser": parser, "prometheus": prometheus, "proxy": proxy, "handed_over": handed_over}


def main():
    if sys.argv[1:2] == ["--job"]:
        return job(sys.argv[2])
    with tempfile.TemporaryDirectory(prefix="terrace-metrics-", dir=os.environ.get("TMPDIR", "/var/tmp")) as directory:
        try:
            CASES[sys.argv[1]](directory)
        except Skipped as reason:
            print(f"SKIP: {reason}")
            return 77
        except Failed as failure:
            print(f"FAILED: {failure}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
