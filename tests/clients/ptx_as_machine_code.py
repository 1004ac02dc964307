#!/usr/bin/env python3
"""Replaces ptxas for Triton: passes the PTX through. Drivers accept it in place of machine code."""

import shutil
import sys

if "--version" in sys.argv:
    print("Cuda compilation tools, release 13.0, V13.0.88")
else:
    shutil.copyfile(next(name for name in sys.argv if name.endswith(".ptx")), sys.argv[sys.argv.index("-o") + 1])
