"""The default voice's codec: codes in SNAC's layout to sound, streaming."""
