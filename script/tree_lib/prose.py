"""Sentences that a reader has to read twice, in comments and documents.

PATTERNS is the list. Only lines that were added after SINCE are looked at: what stood before is
rewritten file by file. Where git does not know SINCE (a source archive, a shallow clone), nothing is
checked, and the caller says so.
"""
import re
import subprocess

# The last commit whose English is not checked.
SINCE = "f6314f342f13ee5d460ea4dfb85186eff9ee9ab9"

SENTENCE_WORDS_MAX = 45

# (regular expression, what to write instead, texts that it must find, texts that it must not find)
PATTERNS = [
    (r"\b(?:[Hh]e|[Hh]im|[Hh]is|[Ss]he|[Hh]ers?)\b",
     "a thread, a process or a caller is \"it\", or is named",
     ["A writer waits until he may go on.", "The caller frees his buffer."],
     ["The reader waits until it may go on.", "The header of this file."]),
    (r"(?i)\b(?:to|for|of|from|by|with|than|as|if|that|but|so|and|or|until|because|where|when|what|all|nobody"
     r"|somebody|everybody|anybody|those|whom?) who\b(?! (?:is|are) called)",
     "say who acts: \"a caller that\", \"the thread that\"",
     ["Memory for who needs it.", "So who is refused looks.", "It is kept by who made it."],
     ["The thread that made it keeps it.", "It says who made it.", "Callers who write wait."]),
    (r"(?:^|[.:;] )Who (?!was |is called )[^?.]*[.;:]",
     "say who acts: \"a caller that\", \"the thread that\"",
     ["Who has no memory waits.", "It ends. Who comes later is told."],
     ["Who waits?", "A caller that comes later is told."]),
    (r"\bwho(?:m)?ever\b", "say who acts: \"a thread that\", \"any caller that\"",
     ["Freed by whoever comes last."], ["Freed by the last caller."]),
    (r"(?:^|[.;] )What (?:is|are|was|has|have|had|may|can|must|needs?|comes?|goes|does|do|they|it|others"
     r"|nothing|nobody|somebody|smaller|larger)\b[^?.]*[.]",
     "begin with the thing: \"Tables that are not flushed are lost\"",
     ["What is not flushed is lost.", "It stops. What comes later waits.", "What nothing is in."],
     ["What does it cost?", "Tables that are not flushed are lost.", "See what is flushed."]),
    (r"(?:^|[.;] )(?:True|False|OK|Null|Empty|None|Zero|Else): [a-z]",
     "write a sentence: \"Returns true if ...\"",
     ["True: a memtable was switched.", "It waits. OK: nothing is left."],
     ["Returns true if it switched a memtable.", "Status::OK: the call"]),
    (r"(?:^|[.;:] )(?:Nor|Neither) (?:is|are|does|do|has|have|may|can|will)\b",
     "say what the subject does not do",
     ["Nor does a reader wait."], ["A reader does not wait either."]),
    (r"\b(?:be it|were it|had it not|lest|ere|thereof|whereof|therein|hence forth|withal|aught|naught)\b",
     "use today's words",
     ["It throws, be it after a switch.", "It looks again, lest one is lost."],
     ["It throws, possibly after a switch."]),
    (r"\b(?:comes?|goes|looks?|asks?) again\b(?= *[.,;])",
     "name what is repeated",
     ["Relaxed: the one that looks comes again."],
     ["The reader polls, so it asks again later."]),
]
COMPILED = [(re.compile(pattern), advice) for pattern, advice, _, _ in PATTERNS]

CODE = re.compile(r"(?:^|\s)///?\s(.*)$")
SCRIPT = re.compile(r"^\s*#\s(.*)$")
ITEM = re.compile(r"(?:[*-]|\d+\.) +")
INLINE_CODE = re.compile(r"`[^`]*`|\"[^\"]*\"|\([^()]*://[^()]*\)")


def prose_of(path, line):
    """What `line` says to people, or None."""
    if path.endswith((".cc", ".h", ".c")):
        match = CODE.search(line)
    elif path.endswith(".md"):
        return None if line.startswith(("    ", "|", "```", "#")) else line.strip()
    elif path.endswith((".py", ".cmake", ".txt", ".sh")) or "." not in path.split("/")[-1]:
        match = SCRIPT.match(line)
    else:
        return None
    return match.group(1).strip() if match else None


def sentences(text):
    """The sentences of a paragraph, without code and quotations."""
    text = INLINE_CODE.sub("X", text)
    return [s for s in re.split(r"(?<=[.?!]) (?=[A-Z`*])", text) if s]


def faults_in(paragraph):
    """Yields what is wrong with the paragraph."""
    for sentence in sentences(paragraph):
        for pattern, advice in COMPILED:
            if pattern.search(sentence):
                yield f"\"{shortened(sentence)}\": {advice}"
        words = len(re.findall(r"[A-Za-z][A-Za-z']*", sentence))
        if words > SENTENCE_WORDS_MAX:
            yield f"\"{shortened(sentence)}\": {words} words; {SENTENCE_WORDS_MAX} at most"


def shortened(sentence):
    return sentence if len(sentence) <= 90 else sentence[:87] + "..."


def paragraphs(lines):
    """[(first line's number, text)] of [(path, number, line)] that follow each other in one file."""
    text, first, last, fenced = [], 0, 0, False
    for path, number, line in lines:
        fence = path.endswith(".md") and line.startswith("```")
        fenced ^= fence
        prose = None if fence or fenced else prose_of(path, line)
        ends = not prose or prose.startswith("//") or ITEM.match(prose)
        if text and (ends or number != last + 1):
            yield first, " ".join(text)
            text = []
        if prose and not prose.startswith("//"):
            if not text:
                first = number
            text.append(ITEM.sub("", prose))
        last = number
    if text:
        yield first, " ".join(text)


def added_lines(root):
    """{path: [(path, number, line)]} of lines that are newer than SINCE; None if git cannot say."""
    diff = subprocess.run(["git", "-C", root, "diff", "-U0", "-M", "-l0", "--no-color", "--no-ext-diff", SINCE,
                           "--", "."], capture_output=True, check=False)
    if diff.returncode != 0:
        return None
    found, path, number = {}, None, 0
    for line in diff.stdout.decode(errors="replace").splitlines():
        if line.startswith("+++ "):
            path = line[6:] if line.startswith("+++ b/") else None
        elif line.startswith("@@"):
            number = int(re.search(r"\+(\d+)", line).group(1))
        elif line.startswith("+") and path is not None:
            found.setdefault(path, []).append((path, number, line[1:]))
            number += 1
    return found


def violations(root):
    """What is wrong with added lines, or None where git cannot say which these are."""
    added = added_lines(root)
    if added is None:
        return None
    return [f"{path}:{number}: {fault}" for path, lines in sorted(added.items())
            if not path.endswith("tree_lib/prose.py")
            for number, paragraph in paragraphs(lines) for fault in faults_in(paragraph)]


def self_test():
    """[failure]: samples of PATTERNS, of the length of sentences, and of what counts as prose."""
    failures = []
    for pattern, _, bad, good in PATTERNS:
        one = re.compile(pattern)
        failures += [f"{pattern} does not find: {text}" for text in bad
                     if not any(one.search(s) for s in sentences(text))]
        failures += [f"{pattern} finds: {text}" for text in good
                     if any(one.search(s) for s in sentences(text))]
    long = "A " + "b " * SENTENCE_WORDS_MAX
    for text, expected in ((long, 1), (long[2:], 0), ("A b. " * SENTENCE_WORDS_MAX, 0)):
        if len(list(faults_in(text))) != expected:
            failures.append(f"words: {len(text)} characters: expected {expected}")
    for path, lines, expected in (
            ("a.h", ["int i;  // Memory for who", "// needs it."], 1),
            ("a.h", ["int i;  // Memory for", "", "// who needs it."], 0),
            ("a.h", ["// 1. Memory for", "// 2. who needs it."], 0),
            ("a.h", ['f("for who needs it");'], 0),
            ("a.md", ["Memory for", "who needs it."], 1),
            ("a.md", ["    for who needs it"], 0),
            ("a.md", ["```", "Memory for who needs it.", "```"], 0),
            ("a.md", ["```", "f();", "```", "Memory for who needs it."], 1),
            ("a.py", ["# Memory for who needs it."], 1),
            ("check", ["# Memory for who needs it."], 1)):
        numbered = [(path, n, line) for n, line in enumerate(lines, 1)]
        found = [f for _, text in paragraphs(numbered) for f in faults_in(text)]
        if bool(found) != bool(expected):
            failures.append(f"{path} with {lines}: expected {expected}, found {found}")
    return failures
