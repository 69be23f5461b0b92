"""What the networks are, and how the voice that ships was made; nothing about requests."""
