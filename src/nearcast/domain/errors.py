"""Every error that nearcast raises on purpose.

    NearcastError
      ConfigError              a configuration that cannot be used
      TopicNameError           a topic name that cannot be used (also a ValueError)
      RingError                a ring that cannot be built or changed as asked (also a ValueError)
      SnapshotError            a snapshot that contradicts itself, or a file that holds none (also a ValueError)
      ModelError               a file that holds no latency model that can be used (also a ValueError)
      BadSample                a measurement that cannot be, of a round-trip time (also a ValueError)
      LinkError                a connection to one broker
        LinkDown               not connected now; the link is trying again by itself
        LinkClosed             closed by us; it will not come back
        MessageTooLarge        larger than the broker takes (also a ValueError)
      StoreError               the coordinator's store
        Conflict               somebody else wrote first: read again, decide again
        StoreDown              not reachable now
      LogError                 the log of a persistent topic
        LogDown                the site that keeps it is not reachable now, or no majority of its servers is
        LogRefused             a log that cannot be kept as asked, or not there
        LogTrimmed             records that retention has removed before they were read
        Unconfirmed            a message of which it is not known that the quorum has written it
        TopicChanged           a subscription that is over because its topic became persistent
      WireError                bytes that are not what they claim to be
        MalformedEnvelope
        MalformedControl
        UnknownVersion         well formed, but of a protocol version that this process does not speak
      AccessRefused            what the user that this process is may not do
      LeaseLost                another holds, or may hold, what this process thought was its own
      MoveRefused              a move that would break a rule of the protocol
      BrokerRefused            an order about a broker that would break a rule, or that nobody can carry out
      ApiRefused               what a coordinator does not do, or does not know, as it is asked over its API
      ProcessorError           a processor that cannot be loaded, or that returned what is no message
      FleetError               a process of this machine that cannot be started or kept running
      PipelineError            datasets, feeds and what is made of them
        SchemaError            columns that cannot be read or used as they are written (also a ValueError)
        ChannelError           a channel or a subscription that cannot be as it is asked for (also a ValueError)
        CatalogRefused         something that cannot be created, changed or dropped as asked, or is not there
        TableGone              a table that was dropped, or a version of one that is no longer kept

Errors of libraries are translated into these where the library is used. A refusal that is part of normal work is a
value, not an error.
"""


class NearcastError(Exception):
    """The root: catch this to catch everything that nearcast raises on purpose."""


class ConfigError(NearcastError):
    """A configuration that cannot be used: the message names the file, the key and what was expected."""


class TopicNameError(NearcastError, ValueError):
    """A topic name that cannot be used: the message says which rule it breaks."""


class RingError(NearcastError, ValueError):
    """A ring that cannot be built or changed as asked."""


class ModelError(NearcastError, ValueError):
    """A file that holds no latency model that can be used: the message says what and where."""


class SnapshotError(NearcastError, ValueError):
    """A snapshot that contradicts itself, or a file that holds none: the message says what and where."""


class BadSample(NearcastError, ValueError):
    """A round-trip time that cannot be, or one to a coordinate that no node can have: nothing is learnt from it."""


class LinkError(NearcastError):
    """Something about the connection to one broker."""


class LinkDown(LinkError):
    """The link is not connected now. It reconnects by itself; what was handed over before may or may not arrive."""


class LinkClosed(LinkError):
    """The link was closed by its owner and will not come back."""


class MessageTooLarge(LinkError, ValueError):
    """A message that is larger than the broker takes: it was not sent."""


class StoreError(NearcastError):
    """Something about the coordinator's store."""


class Conflict(StoreError):
    """The key is not at the expected revision: somebody else wrote first, and nothing was written."""


class StoreDown(StoreError):
    """The store cannot be reached now. Whether a write under way was done is not known."""


class LogError(NearcastError):
    """Something about the log of a persistent topic."""


class LogDown(LogError):
    """The log cannot be reached now. Whether a write under way was done is not known."""


class LogRefused(LogError):
    """A log that cannot be kept as it is asked for, or not there; nothing has been changed."""


class LogTrimmed(LogError):
    """What was to be read has been removed by the topic's retention, or with its log."""


class Unconfirmed(LogError):
    """Not known to be written in time. It is tried on: it will be in the log once, or, if this process ends, perhaps
    not at all.
    """


class TopicChanged(LogError):
    """The topic has become persistent: subscribe again, and nothing from then on is missed."""


class WireError(NearcastError):
    """Bytes that are not what they claim to be."""


class MalformedEnvelope(WireError):
    """An envelope that starts like ours and cannot be read."""


class MalformedControl(WireError):
    """A control message that cannot be read."""


class UnknownVersion(WireError):
    """A well-formed message of a protocol version that this process does not speak."""


class AccessRefused(NearcastError):
    """What the user that this process is may not do."""


class LeaseLost(NearcastError):
    """Another process holds, or may hold, what this one thought was its own: stop acting on it."""


class MoveRefused(NearcastError):
    """A move that would break a rule of the protocol; nothing has been changed."""


class BrokerRefused(NearcastError):
    """An order about a broker that would break a rule, or that nobody can carry out; nothing has been changed."""


class ApiRefused(NearcastError):
    """What a coordinator does not do, or does not know, as it is asked over its API; the message is its own."""


class ProcessorError(NearcastError):
    """A processor that cannot be loaded or prepared, or that returned what is no message."""


class FleetError(NearcastError):
    """A process of this machine that cannot be started or kept running: the message names the log to read."""


class PipelineError(NearcastError):
    """Something about datasets, feeds and what is made of them."""


class SchemaError(PipelineError, ValueError):
    """Columns that cannot be read or used as they are written: the message says where and what was expected."""


class ChannelError(PipelineError, ValueError):
    """A channel or a subscription that cannot be as it is asked for: the message says what, and where in its text."""


class CatalogRefused(PipelineError):
    """Something that cannot be created, changed or dropped as asked, or is not there; nothing has been changed."""


class TableGone(PipelineError):
    """The table was dropped, or the version asked for is no longer kept."""
