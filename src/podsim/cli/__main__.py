"""`python -m podsim.cli`."""

from podsim.cli import main

if __name__ == "__main__":
    main()
