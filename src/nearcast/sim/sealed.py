"""What a program in virtual time may not do: reach anything that has a time of its own."""

import asyncio
from typing import Any, NoReturn


class VirtualRunError(RuntimeError):
    """A run in virtual time that cannot go on."""


class OutsideVirtualTime(VirtualRunError):
    """An attempt at real I/O, a thread or a signal: its outcome would differ from run to run."""


def _refused(name: str) -> Any:
    def refuse(*_args: object, **_kwargs: object) -> NoReturn:
        raise OutsideVirtualTime(
            f"loop.{name}() reaches outside virtual time, where a seed decides nothing: "
            "give the code a memory link, a memory store or a fake instead"
        )

    return refuse


class SealedLoop(asyncio.AbstractEventLoop):
    """An event loop without an outside. What is left to write is time, callbacks, tasks and futures."""

    run_in_executor = _refused("run_in_executor")
    set_default_executor = _refused("set_default_executor")
    shutdown_default_executor = _refused("shutdown_default_executor")
    getaddrinfo = _refused("getaddrinfo")
    getnameinfo = _refused("getnameinfo")
    create_connection = _refused("create_connection")
    create_server = _refused("create_server")
    create_unix_connection = _refused("create_unix_connection")
    create_unix_server = _refused("create_unix_server")
    create_datagram_endpoint = _refused("create_datagram_endpoint")
    connect_accepted_socket = _refused("connect_accepted_socket")
    start_tls = _refused("start_tls")
    sendfile = _refused("sendfile")
    connect_read_pipe = _refused("connect_read_pipe")
    connect_write_pipe = _refused("connect_write_pipe")
    subprocess_shell = _refused("subprocess_shell")
    subprocess_exec = _refused("subprocess_exec")
    add_reader = _refused("add_reader")
    remove_reader = _refused("remove_reader")
    add_writer = _refused("add_writer")
    remove_writer = _refused("remove_writer")
    sock_recv = _refused("sock_recv")
    sock_recv_into = _refused("sock_recv_into")
    sock_recvfrom = _refused("sock_recvfrom")
    sock_recvfrom_into = _refused("sock_recvfrom_into")
    sock_sendall = _refused("sock_sendall")
    sock_sendto = _refused("sock_sendto")
    sock_connect = _refused("sock_connect")
    sock_accept = _refused("sock_accept")
    sock_sendfile = _refused("sock_sendfile")
    add_signal_handler = _refused("add_signal_handler")
    remove_signal_handler = _refused("remove_signal_handler")
    call_soon_threadsafe = _refused("call_soon_threadsafe")
    run_forever = _refused("run_forever")
    stop = _refused("stop")
    set_debug = _refused("set_debug")
    set_task_factory = _refused("set_task_factory")
    get_task_factory = _refused("get_task_factory")
    set_exception_handler = _refused("set_exception_handler")
    get_exception_handler = _refused("get_exception_handler")
    default_exception_handler = _refused("default_exception_handler")
