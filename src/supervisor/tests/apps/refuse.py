# Runs a command where seccomp(2) fails, as some sandboxes have it: refuse.py COMMAND...
import ctypes
import os
import platform
import struct
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD_WORD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, ERRNO, EPERM = 0x7FFF0000, 0x00050000, 1
SECCOMP = {"x86_64": 317, "aarch64": 277}[platform.machine()]

instructions = [
    (LOAD_WORD, 0, 0, 0),
    (JUMP_IF_EQUAL, 0, 1, SECCOMP),
    (RETURN, 0, 0, ERRNO | EPERM),
    (RETURN, 0, 0, ALLOW),
]
program = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *i) for i in instructions))
header = struct.pack("@HP", len(instructions), ctypes.addressof(program))
libc = ctypes.CDLL(None, use_errno=True)
for call in [(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, header, 0, 0)]:
    if libc.prctl(*call) != 0:
        sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")
os.execvp(sys.argv[1], sys.argv[1:])
