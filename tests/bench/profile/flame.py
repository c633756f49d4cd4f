"""perf script's output on standard input becomes a flame graph (SVG, into the named file) and a
list of the functions with most samples (standard output): flame.py TITLE FILE"""

import collections
import html
import re
import sys

WIDTH, ROW, MARGIN = 1200, 17, 40
SMALLEST = 0.6  # Narrower ones are left out, in pixels.
FRAME = re.compile(r"^\s+[0-9a-f]+ (.*) \((.*)\)$")
OURS = ("mlxcommd", "mlxcomm-bench", "libmlxcomm")


def stacks(lines):
    """(program, function, ..., function) from the outermost in, for each sample."""
    program, frames = None, []
    for line in lines:
        if not line.strip():
            if program is not None:
                yield (program, *reversed(frames))
            program, frames = None, []
        elif program is None:
            program = re.split(r"\s+\d+", line.strip(), maxsplit=1)[0]
        else:
            match = FRAME.match(line)
            if match:
                name = re.sub(r"\+0x[0-9a-f]+$", "", match.group(1))
                kernel = match.group(2) == "[kernel.kallsyms]"
                frames.append(f"{name} [kernel]" if kernel else short(name))


def short(name):
    """Without arguments and templates' parameters, which fill a line each."""
    name = re.sub(r"\([^()]*\)( const)?$", "", name)
    while re.search(r"<[^<>]*>", name):
        name = re.sub(r"<[^<>]*>", "", name)
    return name.replace("mlxcomm::", "").replace("(anonymous namespace)::", "")


def tree(counted):
    root = {"count": 0, "children": {}}
    for stack, count in counted.items():
        node = root
        node["count"] += count
        for name in stack:
            node = node["children"].setdefault(name, {"count": 0, "children": {}})
            node["count"] += count
    return root


def boxes(node, left, depth, scale):
    for name, child in sorted(node["children"].items()):
        width = child["count"] * scale
        if width >= SMALLEST:
            yield name, left, depth, width, child["count"]
            yield from boxes(child, left, depth + 1, scale)
        left += width


def colour(name):
    if name.endswith("[kernel]"):
        return "#c6cbd6"
    return f"hsl({20 + sum(map(ord, name)) % 30},75%,{64 + sum(map(ord, name)) % 10}%)"


def draw(title, root):
    drawn = list(boxes(root, 0, 0, WIDTH / max(1, root["count"])))
    height = MARGIN + ROW * (max((box[2] for box in drawn), default=0) + 1) + 10
    yield (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
           f'font-family="monospace" font-size="11"><rect width="100%" height="100%" fill="#fff"/>'
           f'<text x="8" y="20" font-size="14">{html.escape(title)}: {root["count"]} samples</text>')
    for name, left, depth, width, count in drawn:
        top = height - 10 - ROW * (depth + 1)
        share = 100 * count / root["count"]
        yield (f'<g><title>{html.escape(name)}: {share:.1f}%</title><rect x="{left:.1f}" y="{top}" '
               f'width="{width:.1f}" height="{ROW - 1}" fill="{colour(name)}"/>')
        letters = int(width / 6.7)
        if letters >= 3:
            yield f'<text x="{left + 2:.1f}" y="{top + 12}">{html.escape(name[:letters])}</text>'
        yield "</g>"
    yield "</svg>\n"


def main():
    title, path = sys.argv[1:]
    counted = collections.Counter(
        stack for stack in stacks(sys.stdin) if stack[0].startswith(OURS))
    root = tree(counted)
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(draw(title, root)))
    alone = collections.Counter()
    for stack, count in counted.items():
        alone[stack[0], stack[-1]] += count
    print(f"{title}: {root['count']} samples\n\nshare  program         function")
    for (program, function), count in alone.most_common(25):
        print(f"{100 * count / max(1, root['count']):5.1f}  {program:15} {function}")


if __name__ == "__main__":
    main()
