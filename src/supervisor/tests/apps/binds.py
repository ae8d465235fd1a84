"""Binds in every way that the tests ask for, and answers each connection with what it saw."""
import fcntl, os, select, socket, sys

port, test = int(os.environ["PORT"]), sys.argv[1]


def tcp(family=socket.AF_INET, **options):
    s = socket.socket(family, socket.SOCK_STREAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if "v6only" in options:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, options["v6only"])
    return s


def serve(s, text):
    s.listen(16)
    while True:
        c, _ = s.accept()
        c.recv(4096)
        c.sendall(f"HTTP/1.0 200 OK\r\n\r\n{os.getpid()} {text}".encode())
        c.close()


if test == "twice":
    first, second = tcp(), tcp()
    first.bind(("0.0.0.0", port))
    try:
        second.bind(("0.0.0.0", port))
        serve(first, "second bind succeeded")
    except OSError as e:
        serve(first, f"errno {e.errno}")
elif test == "again":
    for _ in range(3):
        s = tcp()
        s.bind(("0.0.0.0", port))
        s.listen(1)
        s.close()
    s = tcp()
    s.bind(("0.0.0.0", port))
    serve(s, "again")
elif test == "looks":
    # Listens only if the socket does not, as gunicorn does it.
    s = tcp()
    s.bind(("0.0.0.0", port))
    listens = s.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    if not listens:
        s.listen(16)
    while True:
        c, _ = s.accept()
        c.recv(4096)
        c.sendall(f"HTTP/1.0 200 OK\r\n\r\n{os.getpid()} {listens}".encode())
        c.close()
elif test == "rebind":
    s = tcp()
    s.bind(("0.0.0.0", port))
    try:
        s.bind(("0.0.0.0", port))
        serve(s, "succeeded")
    except OSError as e:
        serve(s, f"errno {e.errno}")
elif test == "udp":
    u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    u.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    u.bind(("0.0.0.0", port))
    kind = u.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE) == socket.SOCK_DGRAM
    s = tcp()
    s.bind(("0.0.0.0", port))
    serve(s, f"udp {kind}")
elif test == "others":
    zero, other = tcp(), tcp()
    zero.bind(("127.0.0.1", 0))
    other.bind(("127.0.0.1", int(os.environ["OTHER"]) + int(os.environ["WORKER_ID"])))
    zero.listen(), other.listen()
    s = tcp()
    s.bind(("0.0.0.0", port))
    serve(s, f"{zero.getsockname()[1] != 0} {other.getsockname()[1]}")
elif test == "flags":
    s = tcp()
    os.set_inheritable(s.fileno(), os.environ["INHERIT"] == "1")
    s.setblocking(os.environ["BLOCKING"] == "1")
    s.bind(("0.0.0.0", port))
    cloexec = fcntl.fcntl(s, fcntl.F_GETFD) & fcntl.FD_CLOEXEC != 0
    nonblock = fcntl.fcntl(s, fcntl.F_GETFL) & os.O_NONBLOCK != 0
    s.setblocking(True)
    serve(s, f"cloexec={cloexec} nonblock={nonblock}")
elif test == "both":
    # Two sockets, one for each family, as nginx does it.
    four, six = tcp(), tcp(socket.AF_INET6, v6only=1)
    four.bind(("0.0.0.0", port))
    six.bind(("::", port))
    four.listen(16)
    if os.fork() == 0:
        serve(six, "six")
    serve(four, "four")
elif test == "execs":
    # As gosu and su-exec do it.
    os.setgid(65534)
    os.setuid(65534)
    os.execvp("python3", ["python3", sys.argv[0], "whoami"])
elif test in ("drops", "whoami"):
    if test == "drops":
        os.setgid(65534)
        os.setuid(65534)
    s = tcp()
    s.bind(("0.0.0.0", port))
    serve(s, f"uid {os.getuid()}")
elif test == "waits":
    # As Netty's native transport does it: into the epoll set first, and what is wanted is told once it listens.
    s, poll = tcp(), select.epoll()
    poll.register(s, 0)
    s.bind(("0.0.0.0", port))
    s.listen(16)
    poll.modify(s, select.EPOLLIN)
    while True:
        poll.poll()
        c, _ = s.accept()
        c.recv(4096)
        c.sendall(f"HTTP/1.0 200 OK\r\n\r\n{os.getpid()} waits".encode())
        c.close()
elif test == "loopback":
    s = tcp()
    s.bind(("127.0.0.1", port))
    serve(s, "loopback")
elif test == "elsewhere":
    s = tcp()
    s.bind(("0.0.0.0", int(os.environ["OTHER"]) + int(os.environ["WORKER_ID"])))
    serve(s, "elsewhere")
