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
