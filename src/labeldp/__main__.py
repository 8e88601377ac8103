"""`python -m labeldp`: the command line, where its script is not on the path."""

from labeldp.cli import main

if __name__ == "__main__":
    main()
