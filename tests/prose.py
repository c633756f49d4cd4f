#!/usr/bin/env python3
"""Checks the English of READMEs, sources and commit subjects, for tests/lint and the hook commit-msg: phrases
to avoid, each with its replacement, and sentences in READMEs that are too long.

    tests/prose.py FILE...                   READMEs and sources
    tests/prose.py --commit-message FILE     the subject of a commit

Why our own list: proselint cannot be extended, and its checks look for other faults. Vale supports such
rules, but Debian does not package it, and PyPI's version downloads a program at its first run; textlint
needs npm.

It reads READMEs without code and the addresses of links; the comments of sources; and the strings of files
that define options, settings or findings or, in client/ctl, make texts with StrCat. Everything else is
blanked out, so that positions stay the same.
"""

import itertools
import pathlib
import re
import sys

WORDS_MAX = 40  # In a sentence, including code and the text of links.
SUBJECT_MAX = 80

# Everywhere: (phrase, advice).
PHRASES = [
    (r"(came|come|comes) to nothing", "write 'failed'"),
    (r"whoever", "name who: the caller, a process, a node"),
    (r"(is|are|was|were|be|been) told", "say who reports what to whom, or who gets what"),
    (r"(is|are|was|were) taken of", "write 'is assumed about'"),
    (r"so many(?! \S+ that)", "write 'that many', or the number"),
    (r"(can|could|may|to) be had", "write 'is available'"),
    (r"of late", "write 'recently'"),
    (r"anew", "write 'again'"),
    (r"the half of [A-Z]\w+ that", "a file holds one concept: name it"),
    (r"(?-i:Owner: none)", "a line that says nothing: leave it out"),
    (r", for (it|he|they|we|there|nobody|everybody|most) ", "write 'because'"),
]
# Beginnings of sentences without a clear subject: "Who waits looks first."
BEGINNINGS = [
    (r"Who(?! \S+\?)", "say which thread, process or node; 'who' is for questions"),
    (r"Whose", "say which thread, process or node; 'whose' is for questions"),
    (r"What (holds|is|does|goes|has|comes) .{20,}? (is|are|goes|stays|waits)", "give the sentence a subject"),
]
# Not in comments: one word for one thing (the glossary in daemon/README.md), and the usual word.
USER_PHRASES = [
    (r"ways? (through|over) (others|other nodes|another node)", "write 'route'"),
    (r"the engine('s)?( thread)?(?![\w`-])", "write 'the loop' (daemon/README.md)"),
    (r"(mend|mends|mended|mending)", "write 'fix' or 'repair'"),
    (r"(gives?|gave) (way|(its|their) \w+ away)", "write 'yields'"),
]
# In the texts of programs and in commit subjects.
TEXT_PHRASES = [
    (r"tells|(?<=\w\s)said", "write 'reports', 'logs', 'shows' or 'returns'"),
    (r"nobody|somebody|anybody|everybody|whom", "name the user, process or node"),
    (r"by (itself|themselves)", "write 'automatically', or leave it out"),
    (r"so (long|many)", "write 'this long', 'this many', or the number"),
    (r"(stands?|stood) still", "write 'hangs'"),
    (r"(goes|go|gone) on", "write 'continues'"),
    (r"will (not )?do", "write what is valid, or missing"),
    (r"(came|comes?) about", "write what happened"),
]
SUBJECT_PHRASES = [
    (r"(read|looked at|looked through) once more|(a )?(fresh|second) reader", "name what changed"),
]


def compiled(rules, template):
    return [(re.compile(template % pattern.replace(" ", r"\s+"), re.IGNORECASE), advice)
            for pattern, advice in rules]


ANYWHERE = compiled(PHRASES, r"(?<![\w'-])(?:%s)(?![\w-])")
FOR_USERS = compiled(USER_PHRASES, r"(?<![\w'-])(?:%s)(?![\w-])")
IN_TEXTS = compiled(TEXT_PHRASES, r"(?<![\w'-])(?:%s)(?![\w-])")
IN_SUBJECTS = compiled(SUBJECT_PHRASES, r"(?<![\w'-])(?:%s)(?![\w-])")
AT_BEGINNINGS = compiled(BEGINNINGS, r"(?:%s)\b")


def blanked(text, filler=" "):
    """As long as it was, and with its line ends."""
    return re.sub(r"[^\n]", filler, text)


# --- what of a file is prose ---

FENCE = re.compile(r"^ *(```+|~~~+)[^\n]*\n.*?^ *\1[^\n]*$", re.MULTILINE | re.DOTALL)
HTML_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
CODE_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
LINK_END = re.compile(r"(?<=\])\([^)\n]*\)")
HEADING = re.compile(r"^#{1,6} [^\n]*$", re.MULTILINE)
TABLE_RULE = re.compile(r"^\|[ :|-]+\|$", re.MULTILINE)
ITEM = re.compile(r"^ *([-*+]|\d+\.) ", re.MULTILINE)
SENTENCE_END = re.compile(r"[.!?][)\"'*\]]*(?=\s|$)")


def prose_of_markdown(text):
    for pattern in (FENCE, HTML_COMMENT, HEADING, TABLE_RULE):
        text = pattern.sub(lambda found: blanked(found[0]), text)
    # One word, however long the code is; a link counts as its text.
    text = CODE_SPAN.sub(lambda found: re.sub(r"\s", "_", blanked(found[0], "_")), text)
    text = LINK_END.sub(lambda found: blanked(found[0]), text)
    return text.replace("**", "  ").replace("[", " ").replace("]", " ")


def blocks_of_markdown(prose):
    """(where, text, whether it is a cell): paragraphs, list items, and cells of tables."""
    begin, at = None, 0
    for line in [*prose.split("\n"), ""]:
        is_row, is_item = line.lstrip().startswith("|"), ITEM.match(line) is not None
        if begin is not None and (is_row or is_item or not line.strip()):
            yield begin, prose[begin:at], False
            begin = None
        if is_row:
            for cell in re.finditer(r"[^|]+", line):
                yield at + cell.start(), cell[0], True
        elif line.strip() and begin is None:
            begin = at + (ITEM.match(line).end() if is_item else 0)
        at += len(line) + 1


def sentences_of(block, is_cell):
    """(where, text); a cell holds fragments, which semicolons separate as well."""
    begin = 0
    ends = [found.end() for found in SENTENCE_END.finditer(block)]
    if is_cell:
        ends += [found.end() for found in re.finditer(";", block)]
    for end in [*sorted(ends), len(block)]:
        if block[begin:end].strip():
            yield begin + len(block[begin:end]) - len(block[begin:end].lstrip()), block[begin:end].strip()
        begin = end


NOT_CODE = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)|R"(?P<raw>[^(\s]*)\(.*?\)(?P=raw)"|"(?P<string>(?:\\.|[^"\\\n])*)"|"""
    r"""'(?:\\[^'\n]+|\\'|[^\\'\n])'""", re.DOTALL)
SIGNS = {  # That make it a comment or a string, or have another meaning there.
    "comment": re.compile(r"^/[/*]+|\*/$|(?<=\n) *\*(?= )"),
    "string": re.compile(r'^"|"$|\\.'),
}
# Files that define what users read: options, verbs, findings, settings; in client/ctl all texts.
FOR_USERS_TOO = re.compile(r"\badd_(option|flag|subcommand)|\bMLXCOMM_VERB|\bFindingKind\b|\(setting\)")
TEXT_OF_CTL = re.compile(r"\bStr(Cat|Append)\(")


def prose_of_code(text, kind):
    """The comments or strings alone, where they stand; beside strings a NUL for each character of code."""
    filler, prose, at = ("\0" if kind == "string" else " "), [], 0
    for found in NOT_CODE.finditer(text):
        prose.append(re.sub(r"\S", filler, text[at:found.start()]))
        if found[kind] is None:
            prose.append(blanked(found[0], " " if found["comment"] else filler))
        else:
            prose.append(SIGNS[kind].sub(lambda sign: blanked(sign[0]), found[0]))
        at = found.end()
    return "".join(prose) + re.sub(r"\S", filler, text[at:])


def blocks_of_code(prose):
    """(where, text): comments on lines that follow each other; strings that are one to the compiler."""
    pattern = r"[^\0]*[^\0\s][^\0]*" if "\0" in prose else r"(?:^[^\n]*\S[^\n]*(?:\n|\Z))+"
    for found in re.finditer(pattern, prose, re.MULTILINE):
        yield found.start(), found[0]


# --- what is wrong with it ---

def phrases_in(block, rules):
    for pattern, advice in rules:
        for found in pattern.finditer(block):
            said = " ".join(found[0].split()).strip(" ,")
            yield found.start(), f"'{said}': {advice}"


def faults_of_readme(text):
    for at, block, is_cell in blocks_of_markdown(prose_of_markdown(text)):
        faults = [*phrases_in(block, ANYWHERE), *phrases_in(block, FOR_USERS)]
        for begin, sentence in sentences_of(block, is_cell):
            words = [word for word in sentence.split() if re.search(r"\w", word)]
            if len(words) > WORDS_MAX:
                faults.append((begin, f"a sentence of {len(words)} words, and {WORDS_MAX} are allowed"))
            if not is_cell and not sentence.endswith("?"):
                faults += [(begin + where, what) for where, what in beginning_of(sentence)]
        yield from ((at + where, what) for where, what in faults)


def beginning_of(sentence):
    for pattern, advice in AT_BEGINNINGS:
        if pattern.match(sentence) and sentence[0].isupper():
            yield 0, f"'{' '.join(sentence.split()[:3])} ...': {advice}"


def faults_of_code(text, kind):
    rules = [*ANYWHERE, *([*FOR_USERS, *IN_TEXTS] if kind == "string" else [])]
    for at, block in blocks_of_code(prose_of_code(text, kind)):
        yield from ((at + where, what) for where, what in phrases_in(block, rules))


def faults_of_subject(message):
    """Faults of a commit's message; merges and reverts have git's subjects."""
    subject = message.strip().partition("\n")[0]
    if re.match(r"Merge |Revert \"|(fixup|squash|amend)! ", subject):
        return []
    faults = [f"commit subject: {fault}"
              for _, fault in phrases_in(subject, [*IN_SUBJECTS, *IN_TEXTS, *ANYWHERE, *FOR_USERS])]
    if len(subject) > SUBJECT_MAX:
        faults.append(f"commit subject: {len(subject)} characters, and {SUBJECT_MAX} are allowed")
    return faults


def faults_of(name, text):
    """Each as file:line: the fault."""
    if name.endswith(".md"):
        found = faults_of_readme(text)
    else:
        for_users = FOR_USERS_TOO.search(text) or (
            name.startswith("client/ctl/") and TEXT_OF_CTL.search(text))
        kinds = ["comment", "string"] if for_users else ["comment"]
        found = [fault for kind in kinds for fault in faults_of_code(text, kind)]
    places = sorted((text.count("\n", 0, where) + 1, what) for where, what in found)
    return [f"{name}:{line}: {what}" for (line, what), _ in itertools.groupby(places)]


def main(names):
    is_message = names[:1] == ["--commit-message"]
    found = []
    for name in names[is_message:]:
        text = pathlib.Path(name).read_text(encoding="utf-8", errors="replace")
        found += faults_of_subject(text) if is_message else faults_of(name, text)
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
