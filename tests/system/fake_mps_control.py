#!/usr/bin/env python3
"""Replaces nvidia-cuda-mps-control. With -f it is the daemon: has a server and ends at the command "quit". Otherwise it
passes a command to the daemon.

FAKE_MPS_JOURNAL names a file: a daemon writes a line to it when it starts. FAKE_MPS_JOURNAL-ended is a file with the
clients the daemon was told to end. FAKE_MPS: "exits": the daemon ends at once; "hangs": it does not answer; "deaf":
it ignores "quit".
"""
import os
import socket
import subprocess
import sys

WAY = os.environ.get("FAKE_MPS", "")
CONTROL = os.path.join(os.environ["CUDA_MPS_PIPE_DIRECTORY"], "control")


def daemon():
    with open(os.environ["FAKE_MPS_JOURNAL"], "a", encoding="utf-8") as journal:
        names = sorted(name for name in os.environ if name.startswith(("CUDA_MPS_", "CUDA_VISIBLE_")))
        journal.write(" ".join(f"{name}={os.environ[name]}" for name in names) + "\n")
    if WAY == "exits":
        sys.exit("no such GPU")
    with subprocess.Popen(["sleep", "1000"]) as server, socket.socket(socket.AF_UNIX) as listener:
        if WAY != "hangs":
            listener.bind(CONTROL)
            listener.listen()
        while True:
            if WAY == "hangs":
                server.wait()
            peer, _ = listener.accept()
            with peer:
                command = peer.recv(100).decode().strip()
                if command == "quit" and WAY != "deaf":
                    server.kill()
                    os.unlink(CONTROL)
                    return
                if command.startswith("terminate_client"):
                    with open(os.environ["FAKE_MPS_JOURNAL"] + "-ended", "a", encoding="utf-8") as ended:
                        ended.write(command + "\n")
                peer.sendall(f"{server.pid}\n".encode())


def ask():
    with socket.socket(socket.AF_UNIX) as peer:
        try:
            peer.connect(CONTROL)
        except OSError:
            sys.exit("Cannot find MPS control daemon process")
        peer.sendall(sys.stdin.readline().encode())
        print(peer.recv(100).decode(), end="")


if __name__ == "__main__":
    daemon() if sys.argv[1:] == ["-f"] else ask()
