"""`python -m podsim.cli`."""

from podsim.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
