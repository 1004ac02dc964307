#!/usr/bin/env python3
"""Runs a command with some tools hidden, as on a machine without them.

Usage: hidden_tools.py TOOL… -- COMMAND…

Each folder of PATH with one of the tools is replaced by a folder of links to all other files in it.
"""
import os
import pathlib
import subprocess
import sys
import tempfile


def path_without(tools, folder):
    """The value of PATH without `tools`. Links are made in `folder`, readable by every user, since some tests change
    their user."""
    pathlib.Path(folder).chmod(0o755)
    entries = []
    for number, entry in enumerate(os.environ["PATH"].split(os.pathsep)):
        path = pathlib.Path(entry)
        if any((path / tool).exists() for tool in tools):
            links = pathlib.Path(folder) / str(number)
            links.mkdir()
            for file in path.iterdir():
                if file.name not in tools:
                    (links / file.name).symlink_to(file)
            path = links
        entries.append(str(path))
    return os.pathsep.join(entries)


def main():
    arguments = sys.argv[1:]
    if "--" not in arguments[:-1]:
        sys.exit(__doc__)
    split = arguments.index("--")
    with tempfile.TemporaryDirectory(prefix="hidden-tools-") as folder:
        environment = {**os.environ, "PATH": path_without(arguments[:split], folder)}
        sys.exit(subprocess.run(arguments[split + 1:], env=environment, check=False).returncode)


if __name__ == "__main__":
    main()
