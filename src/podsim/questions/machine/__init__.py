"""Questions about a machine: its parts, its fabric, its storage, its power."""
