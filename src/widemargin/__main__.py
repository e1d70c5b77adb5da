"""``python -m widemargin``: the command, also where its script is not on the path."""

from widemargin.cli import main

if __name__ == "__main__":
    main()
