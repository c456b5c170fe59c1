"""What happens when: ops on streams and links, played out."""
