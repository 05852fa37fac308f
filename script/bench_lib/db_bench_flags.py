"""Flags of db_bench, as gflags reads them: -flag and --flag alike, a value after = or as the next word, and
in names - for _."""


def name(word):
    """Of the flag that the word gives, or None where it gives none."""
    return word.lstrip("-").split("=", 1)[0].replace("-", "_") if word.startswith("-") else None


def value(words, wanted, default=None):
    """What the words give to a flag that is not a boolean: the last one counts."""
    found = default
    for word, after in zip(words, [*words[1:], ""]):
        if name(word) == wanted:
            found = word.split("=", 1)[1] if "=" in word else after
    return found


def refuse_own(parser, words, own):
    """Ends the program if a word gives a flag of db_bench that the script sets itself: it would win, and what
    comes out stand under headings that say otherwise. own: {flag: the script's own flag for it, or ""}."""
    for word in words:
        flag = name(word)
        # A boolean flag is also given as --noflag.
        if flag is not None and (flag in own or flag.removeprefix("no") in own):
            instead = own.get(flag) or own.get(flag.removeprefix("no"))
            remedy = f"use {instead} of this script" if instead else "leave it out"
            parser.error(f"{word}: this script sets that flag of db_bench itself; {remedy}")
