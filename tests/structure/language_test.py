#!/usr/bin/env python3
"""Gate of plain English, for comments and documents.

It counts relative and interrogative pronouns, first words of comments, lengths of sentences and
columns. Such counts cannot tell good English from bad. They stop the two habits measured as the
worst here: clauses behind "what" and "which", and comments without a subject.

Usage: language_test.py ROOT_OF_THE_REPOSITORY
       language_test.py ROOT_OF_THE_REPOSITORY --report    prints the figures and the worst sentences
"""
import collections
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from comments import C_SUFFIXES, HASH_SUFFIXES, comments_of

ROOT = pathlib.Path(sys.argv.pop(1)).resolve()

PRONOUN = re.compile(r"\b(?:what|which|that|who|whose|whom|whatever|whichever|whoever)\b", re.IGNORECASE)
WORD = re.compile(r"[A-Za-z][A-Za-z'’-]*")
# Rule 3 of the guide: such comments have no subject, or are questions.
FIRST_WORD = re.compile(r"(?:As|By|For|In|Of|What|Where|Whether|Who|With)\b")
# Pronouns per 100 words of a file. A file with fewer words counts as one of 100.
CAP = 2.0
MIN_WORDS = 100
MAX_MEAN_SENTENCE = 20
MAX_COLUMNS = 100


def files(root):
    """Paths of the repository's files, from git if it is a clone, without results of benchmarks."""
    run = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=False)
    names = run.stdout.split() if run.returncode == 0 else [
        path.relative_to(root).as_posix() for path in sorted(root.rglob("*")) if path.is_file()]
    return [name for name in names if not name.startswith("bench/results/") and pathlib.Path(root, name).is_file()]


def is_source(name):
    path = pathlib.Path(name)
    return path.suffix in C_SUFFIXES or (path.suffix in HASH_SUFFIXES and
                                         (path.suffix != ".txt" or path.name == "CMakeLists.txt"))


def words_and_pronouns(text):
    return len(WORD.findall(text)), len(PRONOUN.findall(text))


def prose_of(document):
    """Paragraphs of a document, without code, headings and addresses; each cell of a table is one."""
    paragraphs, code = [[]], False
    for line in document.splitlines():
        if line.lstrip().startswith("```"):
            code = not code
            paragraphs.append([])
        elif code or line.startswith("#") or not line.strip():
            paragraphs.append([])
        elif line.lstrip().startswith("|"):
            paragraphs.extend([cell] for cell in line.split("|"))
            paragraphs.append([])
        else:
            item = re.sub(r"^\s*(?:[-*]|\d+\.) ", "", line)
            if item != line:
                paragraphs.append([])
            paragraphs[-1].append(item)
    joined = (" ".join(paragraph).strip() for paragraph in paragraphs)
    return [re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "X", paragraph)) for paragraph in joined if paragraph]


def sentences(paragraphs):
    for paragraph in paragraphs:
        for sentence in re.split(r"(?<=[.!?:;])\s+", paragraph.replace("\n", " ")):
            if len(WORD.findall(sentence)) > 2:
                yield sentence.strip()


def rate(words, pronouns):
    return 100 * pronouns / max(words, MIN_WORDS)


def source_problems(name, text):
    problems, words, pronouns = [], 0, 0
    for comment in comments_of(text, pathlib.Path(name).suffix):
        of_comment = words_and_pronouns(comment.text)
        words, pronouns = words + of_comment[0], pronouns + of_comment[1]
        first = FIRST_WORD.match(comment.text)
        if first and comment.marker != "/*":
            problems.append(f"{name}:{comment.line}: the comment begins with “{first.group(0)}”; begin with its subject")
    if rate(words, pronouns) > CAP:
        problems.append(f"{name}: {pronouns} of {words} words of comments are pronouns such as what, which, that, who")
    return problems


def document_problems(name, text):
    problems = []
    paragraphs = prose_of(text)
    words, pronouns = words_and_pronouns(" ".join(paragraphs))
    if rate(words, pronouns) > CAP:
        problems.append(f"{name}: {pronouns} of {words} words are pronouns such as what, which, that, who")
    lengths = [len(WORD.findall(sentence)) for sentence in sentences(paragraphs)]
    if lengths and sum(lengths) / len(lengths) > MAX_MEAN_SENTENCE:
        problems.append(f"{name}: sentences of {sum(lengths) / len(lengths):.1f} words on average")
    code = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            code = not code
        elif not code and len(line) > MAX_COLUMNS and not line.startswith("|") and "](http" not in line:
            problems.append(f"{name}:{number}: {len(line)} columns")
    return problems


def all_problems(root):
    count, problems = 0, []
    for name in files(root):
        if is_source(name):
            check = source_problems
        elif name.endswith(".md"):
            check = document_problems
        else:
            continue
        count += 1
        problems += check(name, pathlib.Path(root, name).read_text(encoding="utf-8"))
    return count, problems


def report(root):
    """Prints the figures by top folder, files by rate, and the sentences with most pronouns."""
    counts, rates, worst = collections.defaultdict(lambda: [0, 0, 0]), [], []
    for name in files(root):
        text = pathlib.Path(root, name).read_text(encoding="utf-8") if is_source(name) or name.endswith(".md") else ""
        paragraphs = prose_of(text) if name.endswith(".md") else [
            comment.text for comment in comments_of(text, pathlib.Path(name).suffix)] if text else []
        words, pronouns = words_and_pronouns("\n".join(paragraphs))
        bare = len(re.findall(r"\bwhat\b", "\n".join(paragraphs), re.IGNORECASE))
        for key in ("all", "documents" if name.endswith(".md") else name.split("/")[0]):
            counts[key] = [a + b for a, b in zip(counts[key], (words, pronouns, bare))]
        if words:
            rates.append((rate(words, pronouns), name))
        worst += [(len(PRONOUN.findall(sentence)), len(WORD.findall(sentence)), name, sentence)
                  for sentence in sentences(paragraphs)]
    for key, (words, pronouns, bare) in sorted(counts.items()):
        print(f"{key:12} {words:7} words, {100 * pronouns / max(words, 1):5.2f} pronouns and "
              f"{100 * bare / max(words, 1):5.2f} “what” per 100")
    rates.sort(reverse=True)
    print("files with most pronouns:", ", ".join(f"{name} {value:.2f}" for value, name in rates[:5]))
    for pronouns, words, name, sentence in sorted(worst, reverse=True)[:10]:
        print(f"{pronouns} pronouns, {words} words, {name}: {sentence}")


class Language(unittest.TestCase):
    maxDiff = None

    def test_comments_and_documents_are_plain(self):
        count, problems = all_problems(ROOT)
        self.assertGreater(count, 1500, "the sources were not found")
        self.assertEqual(problems, [])


class TheTestItself(unittest.TestCase):
    """Planted mistakes are found."""

    def problems(self, name, text):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, name).write_text(text, encoding="utf-8")
            return all_problems(pathlib.Path(folder))[1]

    def test_pronouns(self):
        self.assertEqual(self.problems("a.h", "// Returns the size, and that which it was.\nint a;\n"), [])
        self.assertEqual(len(self.problems("a.h", "// Returns what that is which it was.\nint a;\n")), 1)
        self.assertEqual(len(self.problems("a.py", '"""Prints what that is which it was."""\n')), 1)
        self.assertEqual(len(self.problems("a.md", "It prints what that is which it was.\n")), 1)
        self.assertEqual(self.problems("a.md", "```\nwhat that is which it was\n```\n"), [])
        self.assertEqual(self.problems("a.cc", 'Say("what that is which it was"); auto s = R"(// what that which)";\n'), [])

    def test_first_words(self):
        self.assertEqual(len(self.problems("a.h", "int a;  // Whether it is.\n")), 1)
        self.assertEqual(len(self.problems("a.h", "// One.\n// Of two lines.\n\n// Of the next.\nint a;\n")), 1)
        self.assertEqual(self.problems("a.h", "// Offers it.\nint a;\n"), [])

    def test_sentences(self):
        self.assertEqual(len(self.problems("a.md", "It is " + "very " * 40 + "long.\n")), 2)
        self.assertEqual(self.problems("a.md", "It is short.\n"), [])

    def test_columns(self):
        self.assertEqual(len(self.problems("a.md", "short. " * 20 + "\n")), 1)
        self.assertEqual(self.problems("a.md", "| " + "cell | " * 20 + "\n"), [])


if __name__ == "__main__":
    if "--report" in sys.argv:
        report(ROOT)
    else:
        unittest.main()
