"""Stand-ins shared by the tests, one file a stand-in."""
