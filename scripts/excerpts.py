"""Do README.md and docs/ show what the program prints? Usage: python scripts/excerpts.py --check | --run [NAME ...]

See results/README.md for the marks in the documents and the records in results/excerpts.
"""

from documents.command_line import main

if __name__ == "__main__":
    main()
