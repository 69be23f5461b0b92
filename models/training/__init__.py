"""How the voices that ship were made; nothing here is needed to serve them."""
