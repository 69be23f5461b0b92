# ruff: noqa: SIM905
"""Word lists that sentence, clause and word boundaries are judged by; all lower case."""

from collections.abc import Iterable

from realtime.text import tables


def _bare(abbreviations: Iterable[str]) -> frozenset[str]:
    return frozenset(abbreviation.lower().rstrip(".") for abbreviation in abbreviations)


# "Mr." is followed by a name, "e.g." by an example: neither is ever the last word.
NEVER_LAST = _bare(tables.TITLES) - {"dr", "st", "ft", "mt", "rep", "gen", "col", "maj"} | _bare(
    ("e.g.", "i.e.", "vs.", "cf.", "viz.", "approx.")
)
# Also "Dr." for drive, "St." for street, "p.m.", "Inc.": last when the next word starts a sentence.
MAY_BE_LAST = (
    _bare(tables.TITLES)
    | _bare(tables.STREETS)
    | _bare(tables.ABBREVIATIONS)
    | frozenset(tables.MONTH_BY_ABBREVIATION)
    | frozenset(tables.WEEKDAY_BY_ABBREVIATION)
) - NEVER_LAST - {"sun", "sat", "may", "mar", "est", "min", "max", "ext", "co"} | {"corp", "inc"}
BEFORE_NUMBERS = (
    frozenset(tables.NUMBERED)
    | frozenset(tables.MONTH_BY_ABBREVIATION)
    | frozenset(tables.WEEKDAY_BY_ABBREVIATION)
    | {"ext", "est", "min", "max", "v", "ver"}
)
# Capitalised in the middle of a sentence only in names.
STARTERS = frozenset(
    "a an the this that these those there here it he she we they i you my your his her our"
    " their its but and so or yet then if when while after before as in on at for with from to"
    " by what who why how where which can could would should will shall may might must do does"
    " did is are was were has have had please let however also meanwhile still now next finally"
    " first second third once since although though because unless until just maybe perhaps some"
    " many most all both each every one another no not yes even only during despite instead"
    " otherwise overall today tomorrow yesterday tonight everyone someone nobody nothing"
    " everything it's i'm i've i'll i'd we're we've we'll we'd they're they've they'll you're"
    " you've you'll he's he'll she's she'll that's there's here's what's who's let's don't"
    " doesn't didn't isn't aren't can't won't".split()
)
# A clause often begins with one of these: the best place for a cut without punctuation.
CONNECTIVES = frozenset(
    "and but or so because that which who when while where if although though since unless"
    " until before after then than as with without for from into through across over under"
    " between during to in on at by about against toward towards despite whether how why"
    " what beside near within along around behind among once like via per".split()
)
# Words that belong to the next one: no cut behind them.
LEANS_FORWARD = frozenset(
    "a an the this that these those my your his her its our their of to in on at by for from"
    " with into onto upon about over under and or but nor so if as than because while when since"
    " until is are was were be been being am has have had do does did will would can could shall"
    " should may might must not no very too more most less least such each every any some all"
    " both either neither he she we they you it who which what whose i'm twenty thirty forty"
    " fifty sixty seventy eighty ninety hundred thousand million billion one two three four five"
    " six seven eight nine ten eleven twelve half point minus plus miss mister doctor saint"
    " mount sir lady there".split()
)
# Two letters, no abbreviation: they may end a sentence in prose without capitals.
SHORT_WORDS = frozenset("it me us so to go do be up we he is on ok".split())
LONGEST_WORD = max(len(word) for word in STARTERS | CONNECTIVES) + 1
