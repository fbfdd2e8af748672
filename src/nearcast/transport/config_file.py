"""What the configuration file may say, key by key; `transport.config` checks and uses it.

name = "drones"
key_file = "key"                      # or NEARCAST_KEY: what control messages are signed with
notice_key = "d75a9801..."            # optional: the public key by which agents' notices on topics are known
notice_key_file = "notices"           # or NEARCAST_NOTICE_KEY: the private one, for agents alone
protocol = 1                          # optional: the version to write while older software is still in the fleet
unsigned_notices = true               # optional: while some agents still write a version below 3, theirs are taken too
analyzer = false                      # optional: clients do not count, agents do not report
sampled_topics = 4                    # optional: so many topics of plain clients an agent listens to at a time,
sampled_messages = 250                # and to no more than so many messages of each in a second

[control]
url = "nats://127.0.0.1:4222"         # or NEARCAST_CONTROL_URL: the control bus and the store

[[broker]]
name = "edge1"
url = "nats://127.0.0.1:4223"
site = "berlin"                       # optional
out_bytes_per_s = 12.5e6              # optional: what it can send; without it no load ratio is known
cores = 2                             # optional, as the next two: the processors that it has
memory_bytes = 4e9
out_messages_per_s = 200e3            # what it can send before it becomes late: `nearcast bench broker` finds it
monitor = "http://127.0.0.1:8222"     # optional: where a NATS server shows its own counters
servers = ["nats://127.0.0.1:4224"]   # optional: further servers of its cluster, which keep persistent topics with it

[[way]]                               # optional: how one site reaches one broker, where that differs
site = "berlin"
broker = "edge2"                      # or "_control", the control bus
url = "nats://127.0.0.1:5001"
servers = []                          # optional: likewise

[tls]                                 # optional: for tls:// and rediss:// addresses
ca_file = "ca.pem"

[access.client]                       # optional: how servers let a client in; likewise access.agent, access.coordinator
user = "client"
password_file = "credentials/client"  # or NEARCAST_CLIENT_PASSWORD: addresses with a user of their own keep that
topics = ["fleet.>", "alerts"]        # optional: a tenant's: the user may use these topics only

[added]                               # optional: how brokers that are added later let this process in, if otherwise
user = "nearcast"
password = "secret"                   # or NEARCAST_ADDED_PASSWORD

[provisioner]                         # optional, for coordinators: who starts and ends servers when they are asked to
socket = "provisioner.sock"           # of a `nearcast up`, which writes this
minimum = 1                           # brokers that are never drained

[web]                                 # optional: without it, nothing is served over HTTP
address = "127.0.0.1:8790"            # of each coordinator: API, dashboard, metrics; port 0 is a free one
metrics = "127.0.0.1:0"               # optional: of each agent and pipeline, its metrics
tokens_file = "credentials/tokens"    # who may use API and dashboard; without it anybody, and on loopback only
api = ["http://10.0.0.5:8790"]        # where operators' commands find coordinators, or NEARCAST_API; else by `address`
token_file = "credentials/operator"   # with which they are let in, or NEARCAST_TOKEN
cert_file = "web.pem"                 # optional: what is served is served over HTTPS; [tls] says whom to trust
key_file = "web.key"                  # optional: where that certificate's key is, if not in the same file

[pipeline]                            # optional: of feeds and datasets
folder = "pipeline"                   # where tables are: every process of Spark must see it by this name

[timing]                              # optional: see nearcast.control.timing
lease_s = 10.0

[rebalance]                           # optional: see nearcast.control.loop and nearcast.policies.settings
policy = "dynamoth"
every_s = 5.0                         # 0, as without this: only when an operator asks
high_ratio = 0.8

[homes]                               # optional: see nearcast.control.rehoming
placement = "nearest"                 # of who comes to a channel; without it, each stays where it came
policy = "bad-ldm"                    # by which loads are evened out: `[rebalance.balancing]` says when
every_s = 10.0                        # 0, as without this: only when an operator asks
"""

from typing import Annotated

import msgspec

from nearcast.transport.access import RawAccess
from nearcast.wire.dialect import NEWEST


class ControlTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    url: str


class BrokerTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    url: str
    site: str = ""
    out_bytes_per_s: float | None = None
    cores: float | None = None
    memory_bytes: float | None = None
    out_messages_per_s: float | None = None
    monitor: str | None = None
    servers: tuple[str, ...] = ()


class WayTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    site: str
    broker: str
    url: str
    servers: tuple[str, ...] = ()


class TlsTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None


class AddedTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    user: str | None = None
    password: str | None = None


class ProvisionerTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    socket: str | None = None
    minimum: int = 1


class PipelineTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    folder: str = "pipeline"


class WebTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    address: str | None = None
    metrics: str | None = None
    tokens_file: str | None = None
    api: tuple[str, ...] = ()
    token_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None


class ConfigFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    control: ControlTable
    broker: tuple[BrokerTable, ...]
    name: str = "nearcast"
    key_file: str | None = None
    notice_key: str | None = None
    notice_key_file: str | None = None
    protocol: int = NEWEST
    unsigned_notices: bool = False
    analyzer: bool = True
    sampled_topics: Annotated[int, msgspec.Meta(ge=0)] = 4
    sampled_messages: Annotated[int, msgspec.Meta(ge=1)] = 250
    way: tuple[WayTable, ...] = ()
    tls: TlsTable | None = None
    access: dict[str, RawAccess] = {}
    added: AddedTable = AddedTable()
    provisioner: ProvisionerTable = ProvisionerTable()
    pipeline: PipelineTable = PipelineTable()
    web: WebTable = WebTable()
    timing: dict[str, float] = {}
    rebalance: dict[str, object] = {}
    homes: dict[str, object] = {}
