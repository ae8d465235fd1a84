"""Process trees of the kinds that go wrong; the first argument says which."""
import os, signal, sys, time

test = sys.argv[1]


def daemonise(work):
    """The classic double fork, in a session of its own."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            work()
        os._exit(0)
    os.wait()


def say(text):
    os.write(1, (text + "\n").encode())


def until(signum, text):
    def handler(*_):
        say(f"{text} {os.getpid()}")
        os._exit(0)

    signal.signal(signum, handler)
    say(f"daemon {os.getpid()}")
    while True:
        signal.pause()


if test == "daemon":
    daemonise(lambda: until(signal.SIGTERM, "daemon stopped"))
    until(signal.SIGTERM, "main stopped")
elif test == "stubborn":
    # Neither the main process nor its daemon can be asked to stop.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    daemonise(lambda: (say(f"daemon {os.getpid()}"), time.sleep(600)))
    time.sleep(600)
elif test == "orphans":
    for _ in range(1000):
        if os.fork() == 0:
            if os.fork() == 0:
                os._exit(0)
            os._exit(0)
        os.wait()
    say("orphans made")
    time.sleep(600)
elif test == "signals":
    for signum in (signal.SIGUSR1, signal.SIGWINCH, signal.SIGTTIN, signal.SIGQUIT):
        signal.signal(signum, lambda number, _: say(f"got {signal.Signals(number).name}"))
    say("prepared")
    while True:
        signal.pause()
elif test == "leaves":
    # Ends, and leaves a server behind.
    if os.fork() == 0:
        until(signal.SIGTERM, "left behind stopped")
    time.sleep(0.2)
    os._exit(4)
