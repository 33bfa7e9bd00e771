"""A real Kafka broker on this machine, for tests: it can be killed, stopped and started again.

Its jars come from Maven Central, fetched by ``mvn`` by pinned versions and checksums (``kafka.jars``), once, into a
folder of the user's cache.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.needs import lacking, program
from tests.ports import own_ports

_JARS = Path(__file__).with_name("kafka.jars")
_COPYING = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
_POM = (
    "<project><modelVersion>4.0.0</modelVersion><groupId>tocsin</groupId><artifactId>kafka</artifactId>"
    "<version>1</version><dependencies>{}</dependencies></project>"
)
_FETCHED_S = 600.0
_PATIENCE_S = 60.0
USER, PASSWORD = "tocsin", "correct horse"


class KafkaBroker:
    """One broker that is its own controller, with its own folder and ports.

    ``address`` is for everybody. ``secure`` wants TLS and a password; its certificate is ``certificate``. On ``via`` a
    test may put a proxy of its own before ``behind``: whoever asks there is told to come back there.
    """

    def __init__(self, folder: Path, jars: Path, java: str, ports: list[int]) -> None:
        self.folder = folder
        self.address, self.secure = (f"127.0.0.1:{port}" for port in ports[:2])
        self.via, self.behind = (("127.0.0.1", port) for port in ports[3:5])
        self.certificate = folder / "cert.pem"
        self.process: subprocess.Popen[bytes] | None = None
        self.admin = AdminClient({"bootstrap.servers": self.address, "log_level": 0})
        self._lay_out(ports)
        self._command = [
            *(java, "-Xms96m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            *("-cp", f"{jars}/*", "kafka.Kafka", str(folder / "server.properties")),
        ]

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log, cwd=self.folder)

    def signal(self, number: signal.Signals) -> None:
        """SIGKILL ends it, SIGSTOP leaves it hanging with its connections open, SIGCONT lets it go on."""
        assert self.process is not None
        self.process.send_signal(number)
        if number in (signal.SIGKILL, signal.SIGTERM):
            self.process.wait(_PATIENCE_S)

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.signal(signal.SIGKILL)

    def is_up(self) -> bool:
        """Wait until it answers. False: it has ended."""
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline:
            if self.process is None or self.process.poll() is not None:
                return False
            with contextlib.suppress(KafkaException):
                self.admin.list_topics(timeout=0.5)
                return True
        return False

    def restart(self) -> None:
        self.start()
        assert self.is_up(), (self.folder / "log").read_text()[-2000:]

    def make_topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        topic = NewTopic(name, partitions, 1, config=dict(config or {}))
        self.admin.create_topics([topic])[name].result(_PATIENCE_S)
        # It is made, and the broker learns of it a moment later.
        deadline = time.monotonic() + _PATIENCE_S
        while len(self.admin.list_topics(name, timeout=_PATIENCE_S).topics[name].partitions) < partitions:
            assert time.monotonic() < deadline, "the topic did not come into being"
        return name

    def _lay_out(self, ports: list[int]) -> None:
        data = self.folder / "data"
        data.mkdir(parents=True)
        # What the tool that formats a disk would write.
        (data / "meta.properties").write_text(
            "version=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAA\nnode.id=1\ndirectory.id=BAAAAAAAAAAAAAAAAAAAAA\n"
        )
        key = self.folder / "key.pem"
        line = (
            f"req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=kafka -keyout {key} -out {self.certificate}"
        )
        openssl = program("openssl", "openssl")
        alternative = ["-addext", "subjectAltName=IP:127.0.0.1"]
        subprocess.run([openssl, *line.split(), *alternative], check=True, capture_output=True)
        both = self.folder / "both.pem"
        both.write_text(key.read_text() + self.certificate.read_text())
        (self.folder / "server.properties").write_text(
            _SERVER.format(
                plain=ports[0],
                secure=ports[1],
                controller=ports[2],
                via=ports[3],
                behind=ports[4],
                data=data,
                keystore=both,
                user=USER,
                password=PASSWORD,
            )
        )


_SERVER = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAIN://127.0.0.1:{plain},SECURE://127.0.0.1:{secure},VIA://127.0.0.1:{behind},\
CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAIN://127.0.0.1:{plain},SECURE://127.0.0.1:{secure},VIA://127.0.0.1:{via}
inter.broker.listener.name=PLAIN
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAIN:PLAINTEXT,VIA:PLAINTEXT,SECURE:SASL_SSL
log.dirs={data}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=1500
broker.heartbeat.interval.ms=300
auto.create.topics.enable=false
ssl.keystore.type=PEM
ssl.keystore.location={keystore}
sasl.enabled.mechanisms=PLAIN
listener.name.secure.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
user_{user}="{password}";
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
allow.everyone.if.no.acl.found=true
"""


class Topic:
    """What is on a topic, read on from where it was read to the last time."""

    def __init__(self, broker: KafkaBroker, name: str) -> None:
        self.name = name
        self.messages: list[Message] = []
        config = {"bootstrap.servers": broker.address, "group.id": "tests", "log_level": 0}
        self._consumer = Consumer({**config, "enable.auto.commit": False})
        # Not the one that reads: questions wait behind its fetches, and these wait for events.
        self._asked = Consumer(config)
        found = self._consumer.list_topics(name, timeout=_PATIENCE_S).topics[name].partitions
        self._at = dict.fromkeys(found, 0)
        self._consumer.assign([TopicPartition(name, partition, 0) for partition in found])

    def read(self) -> list[Message]:
        """All that is on it at this moment."""
        deadline = time.monotonic() + _PATIENCE_S
        ends = {partition: self._end(partition, deadline) for partition in self._at}
        while any(self._at[partition] < end for partition, end in ends.items()):
            assert time.monotonic() < deadline, "the topic cannot be read"
            for message in self._consumer.consume(500, 0.5):
                assert message.error() is None, message.error()
                self.messages.append(message)
                self._at[message.partition()] = message.offset() + 1
        return self.messages

    def _end(self, partition: int, deadline: float) -> int:
        """A broker that was stopped may not know for a moment that the partition is its own."""
        while True:
            try:
                return int(
                    self._asked.get_watermark_offsets(TopicPartition(self.name, partition), timeout=5)[1]
                )
            except KafkaException:
                if time.monotonic() > deadline:
                    raise

    def names(self) -> Counter[str]:
        """How often each launch is on it."""
        return Counter(headers_of(message)["Tocsin-Launch"] for message in self.read())

    def close(self) -> None:
        self._consumer.close()
        self._asked.close()


def headers_of(message: Message) -> dict[str, str]:
    found: Any = message.headers()
    return {name: value.decode() for name, value in found or []}


@contextlib.contextmanager
def kafka(folder: Path, *, up: bool = True) -> Iterator[KafkaBroker]:
    """A broker that answers; not ``up``: one that was never started."""
    java = program("java", "default-jre-headless")
    jars = _jars()
    for attempt in range(3):
        broker = KafkaBroker(folder / f"kafka{attempt}", jars, java, own_ports(5))
        try:
            if up:
                broker.start()
            if not up or broker.is_up():
                yield broker
                return
        finally:
            broker.end()
        # Another process took one of its ports: once more with others.
    raise AssertionError(f"Kafka did not start: see the logs in {folder}")


def _jars() -> Path:
    """The folder with all jars. Whoever comes first fetches them, the others wait."""
    wanted = _JARS.read_bytes()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tocsin-tests"
    folder = cache / f"kafka-{hashlib.sha256(wanted).hexdigest()[:16]}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            lines = [line.split() for line in wanted.decode().splitlines() if not line.startswith("#")]
            fresh = cache / "fetching"
            shutil.rmtree(fresh, ignore_errors=True)
            fresh.mkdir()
            try:
                _fetch(fresh, lines)
            except (OSError, subprocess.SubprocessError) as wrong:
                lacking(f"the jars of Kafka cannot be fetched: {wrong}")
            fresh.rename(folder)
    return folder


def _fetch(folder: Path, lines: list[list[str]]) -> None:
    """Maven's own client fetches them: exactly these, whatever they say they need."""
    pom = folder / "pom.xml"
    pom.write_text(_POM.format("".join(map(_dependency, (coordinates for coordinates, _ in lines)))))
    subprocess.run(
        [
            program("mvn", "maven"),
            "-B",
            "-q",
            "-f",
            str(pom),
            f"{_COPYING}:copy-dependencies",
            f"-DoutputDirectory={folder}",
        ],
        check=True,
        timeout=_FETCHED_S,
    )
    for coordinates, checksum in lines:
        _, artifact, version = coordinates.split(":")
        jar = folder / f"{artifact}-{version}.jar"
        assert hashlib.sha256(jar.read_bytes()).hexdigest() == checksum, (
            f"{jar} is not the jar that was pinned"
        )


def _dependency(coordinates: str) -> str:
    group, artifact, version = coordinates.split(":")
    return (
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
        "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>"
    )
