"""How large the house is: files and lines of code, by room.

Lines of code are those that hold a token of code: no docstrings, comments or blanks.
"""

import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src" / "widemargin"
SILENT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def docstring_lines(text: str) -> set[int]:
    lines: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        if not isinstance(body, list) or not body:
            continue
        first = body[0]
        value = first.value if isinstance(first, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            lines |= set(range(first.lineno, (first.end_lineno or 0) + 1))
    return lines


def lines_of_code(path: Path) -> int:
    text = path.read_text()
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in SILENT:
            code |= set(range(token.start[0], token.end[0] + 1))
    return len(code - docstring_lines(text))


def main() -> None:
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else SOURCE
    files: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).parts
        room = parts[0] if len(parts) > 1 else "."
        files[room] += 1
        lines[room] += lines_of_code(path)
    for room in sorted(files):
        print(f"{room:12} {files[room]:4} files {lines[room]:6} lines of code")
    print(f"{'together':12} {files.total():4} files {lines.total():6} lines of code")


if __name__ == "__main__":
    main()
