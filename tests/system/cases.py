#!/usr/bin/env python3
"""Lists the cases of the system tests, or runs one.

Usage: cases.py list | cases.py run CASE…

A case is MODULE.CLASS.METHOD. Exit status 77: all cases were skipped. CUSPAN_BUILD names the build tree under test.
"""
import pathlib
import sys
import unittest

FOLDER = pathlib.Path(__file__).resolve().parent
SKIPPED = 77


def flat(suite):
    """Flattens nested suites into their cases."""
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from flat(item)
        else:
            yield item


def main():
    sys.path.insert(0, str(FOLDER))
    loader = unittest.TestLoader()
    if sys.argv[1:] == ["list"]:
        names = sorted(path.stem for path in FOLDER.glob("*_test.py"))
        suite = loader.loadTestsFromNames(names)
        if loader.errors:
            sys.exit("\n".join(loader.errors))
        print("\n".join(case.id() for case in flat(suite)))
        return
    if len(sys.argv) < 3 or sys.argv[1] != "run":
        sys.exit(__doc__)
    result = unittest.TextTestRunner(verbosity=2).run(loader.loadTestsFromNames(sys.argv[2:]))
    if not result.wasSuccessful():
        sys.exit(1)
    if len(result.skipped) == result.testsRun:
        sys.exit(SKIPPED)


if __name__ == "__main__":
    main()
