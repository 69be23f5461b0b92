# ruff: noqa: RUF001
"""Dates, years, decades, times of day and durations."""

import re

from realtime.text import numbers, tables
from realtime.text.alignment import Replace

_MONTH = "|".join(
    sorted({*tables.MONTHS, *(a.capitalize() for a in tables.MONTH_BY_ABBREVIATION)}, key=len)[::-1]
)
_WEEKDAY = "|".join(
    sorted({*tables.WEEKDAYS, *(a.capitalize() for a in tables.WEEKDAY_BY_ABBREVIATION)}, key=len)[
        ::-1
    ]
)
_YEAR = r"(?:1[0-9]|20)\d{2}"
_AM_PM = re.compile(r"[^AaPp]")


def month_name(written: str) -> str:
    """Full name of a month written in full or short."""
    return tables.MONTH_BY_ABBREVIATION[written.lower()[:3]]


def _day_of(month: int, day: int, year: str) -> str | None:
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return None
    spoken = f"{tables.MONTHS[month - 1]} {numbers.ordinal(str(day))}"
    return f"{spoken}, {_year_words(year)}" if year else spoken


def _year_words(written: str) -> str:
    if len(written) == 2:
        written = ("19" if int(written) > 40 else "20") + written
    return numbers.year(written)


def _iso(match: re.Match[str]) -> str | None:
    year, month, day = match.groups()
    return _day_of(int(month), int(day), year)


def _timestamp(match: re.Match[str]) -> str | None:
    date = _day_of(int(match.group(2)), int(match.group(3)), match.group(1))
    hour, minute = int(match.group(4)), int(match.group(5))
    if date is None or hour > 24 or minute > 59:
        return None
    return f"{date} at {_clock(hour, minute)}{' U.T.C' if match.group(6) else ''}"


def _clock(hour: int, minute: int) -> str:
    spoken = numbers.cardinal(str(hour))
    if not minute:
        return spoken + (" o'clock" if 0 < hour <= 12 else " hundred")
    return spoken + (" oh " if minute < 10 else " ") + numbers.cardinal(str(minute))


def _hours_and_minutes(match: re.Match[str]) -> str:
    return _counted(
        (match.group(1), "hour"), (match.group(2), "minute"), (match.group(3), "second")
    )


def _minutes_and_seconds(match: re.Match[str]) -> str:
    return _counted((match.group(1), "minute"), (match.group(2), "second"))


def _counted(*counts: tuple[str | None, str]) -> str:
    return " ".join(
        f"{numbers.cardinal(count)} {unit}{'' if count == '1' else 's'}"
        for count, unit in counts
        if count
    )


def _month_range(match: re.Match[str]) -> str:
    return f"{month_name(match.group(1))} to {month_name(match.group(2))}"


def _slashes(match: re.Match[str]) -> str | None:
    first, second, year = int(match.group(1)), int(match.group(2)), match.group(3)
    month, day = (first, second) if first <= 12 else (second, first)
    return _day_of(month, day, year)


def _month_and_year(match: re.Match[str]) -> str | None:
    month, year = match.groups()
    if not 1 <= int(month) <= 12:
        return None
    return f"{tables.MONTHS[int(month) - 1]} {_year_words(year)}"


def _short_date(match: re.Match[str]) -> str | None:
    spoken = _day_of(int(match.group(2)), int(match.group(3)), "")
    return f"{match.group(1)} {spoken}" if spoken else None


def _span_of_time(match: re.Match[str]) -> str:
    """The dash of "9am-5pm"; a full hour without its half of the day is read as a number."""
    return match.group(1).removesuffix(":00") + " to "


def _weekday(match: re.Match[str]) -> str:
    name = tables.WEEKDAY_BY_ABBREVIATION.get(match.group(1).lower(), match.group(1))
    return name + match.group(2)


def _weekday_range(match: re.Match[str]) -> str:
    first, last = (tables.WEEKDAY_BY_ABBREVIATION[day.lower()[:3]] for day in match.groups())
    return f"{first} to {last}"


def _month_day(match: re.Match[str]) -> str | None:
    month, day, year = match.group(1), match.group(2), match.group(3)
    if not 1 <= int(day) <= 31:
        return None
    spoken = f"{month_name(month)} {numbers.ordinal(day)}"
    return f"{spoken}, {_year_words(year)}" if year else spoken


def _day_month(match: re.Match[str]) -> str | None:
    day, month, year = match.groups()
    if not 1 <= int(day) <= 31:
        return None
    spoken = f"the {numbers.ordinal(day)} of {month_name(month)}"
    return f"{spoken} {_year_words(year)}" if year else spoken


def _month_year(match: re.Match[str]) -> str:
    return f"{month_name(match.group(1))} {_year_words(match.group(2))}"


def _decade(match: re.Match[str]) -> str:
    century, decade = match.group(1) or "", match.group(2)
    if century and decade == "00":
        return numbers.year(century + decade) + "s"
    if century:
        return numbers.plural(numbers.year(century + decade))
    return numbers.plural(numbers.cardinal(decade))


def _short_year(match: re.Match[str]) -> str:
    written = match.group(1)
    return ("oh " if written[0] == "0" else "") + numbers.cardinal(str(int(written)))


def _half_day(written: str | None) -> str:
    return "" if not written else f" {_AM_PM.sub('', written).upper()}.M"


def _time(match: re.Match[str]) -> str | None:
    hour, minute, second, half = match.groups()
    if int(minute) > 59 or (second and int(second) > 59):
        return None
    if second and not half:
        return _duration(int(hour), int(minute), int(second))
    if int(hour) > 24:
        return None
    spoken = numbers.cardinal(str(int(hour)))
    if int(minute):
        spoken += (" oh " if int(minute) < 10 else " ") + numbers.cardinal(str(int(minute)))
    elif not half:
        spoken += " o'clock" if 0 < int(hour) <= 12 else " hundred"
    return spoken + _half_day(half) + _stop(match)


def _duration(hours: int, minutes: int, seconds: int) -> str:
    parts = [
        f"{numbers.cardinal(str(count))} {unit}{'' if count == 1 else 's'}"
        for count, unit in ((hours, "hour"), (minutes, "minute"), (seconds, "second"))
        if count
    ]
    return " ".join(parts[:-1]) + " and " + parts[-1] if len(parts) > 1 else "".join(parts)


def _stop(match: re.Match[str]) -> str:
    """The full stop of "p.m." is also the sentence's when nothing follows."""
    ends_text = not match.string[match.end() :].strip(" \"'”’)")
    return "." if match.group().endswith(".") and ends_text else ""


def _hour(match: re.Match[str]) -> str | None:
    if int(match.group(1)) > 24:
        return None
    return numbers.cardinal(match.group(1)) + _half_day(match.group(2)) + _stop(match)


def _era(match: re.Match[str]) -> str:
    number, era = match.group(1), match.group(2).replace(".", "").upper()
    spoken = numbers.year(number) if re.fullmatch(_YEAR, number) else numbers.cardinal(number)
    return f"{spoken} {'.'.join(era)}"


_HALF = r"([AaPp]\.?[Mm]\b\.?|[AaPp]\b)"
RULES: tuple[tuple[re.Pattern[str], Replace], ...] = (
    (
        re.compile(
            r"(?<![\w-])(\d{4})-(\d{2})-(\d{2})[T ](\d{2}):(\d{2})"
            r"(?::\d{2}(?:\.\d{1,9})?)?(Z)?(?![\w:])"
        ),
        _timestamp,
    ),
    (
        re.compile(
            r"(?<![\w.,])(\d{1,2}) ?h(?:rs?)? ?(\d{1,2}) ?m(?:in)?(?: ?(\d{1,2}) ?s(?:ec)?)?(?!\w)"
        ),
        _hours_and_minutes,
    ),
    (
        re.compile(r"(?<![\w.,])(\d{1,2}) ?m(?:in)? ?(\d{1,2}) ?s(?:ec)?(?!\w)"),
        _minutes_and_seconds,
    ),
    (re.compile(rf"\b({_MONTH})\.? ?[-–—] ?({_MONTH})\b\.?"), _month_range),
    (re.compile(r"(?<=\b[Nn]oon)[-–—](?=\d)|(?<=\b[Mm]idnight)[-–—](?=\d)"), lambda _: " to "),
    (re.compile(r"(?<![\w-])(\d{4})-(\d{2})-(\d{2})(?:(?=T\d)|\b(?!-))"), _iso),
    (re.compile(r"(?<![\w/])(\d{1,2})/(\d{1,2})/(\d{4}|\d{2})\b(?!/)"), _slashes),
    (re.compile(rf"(?<![\w/])(\d{{1,2}})/({_YEAR})\b(?!/)"), _month_and_year),
    (
        re.compile(r"\b([Oo]n|[Bb]y|[Uu]ntil|[Ss]ince|[Dd]ue) (\d{1,2})/(\d{1,2})\b(?![/\w])"),
        _short_date,
    ),
    (re.compile(rf"\b({_WEEKDAY})\.? ?[-–—] ?({_WEEKDAY})\b\.?"), _weekday_range),
    (
        re.compile(
            r"\b(Mon|Tues?|Wed|Thu(?:rs?)?|Fri|Sat|Sun)(?:\.(?! [A-Z][a-z]+ [a-z])|(?=,? \d))(,?)"
        ),
        _weekday,
    ),
    (
        re.compile(rf"\b(Mon|Tues?|Wed|Thu(?:rs?)?|Fri|Sat|Sun)(, ?)(?=(?:{_MONTH})\b)"),
        _weekday,
    ),
    (
        re.compile(
            rf"\b({_MONTH})\.? (\d{{1,2}})(?:st|nd|rd|th)?\b(?![\d:%/-]|\.\d)(?:,? ({_YEAR})\b)?"
        ),
        _month_day,
    ),
    (
        re.compile(
            rf"(?:\b[Tt]he )?(?<![\w.$€£:/-])(\d{{1,2}})(?:st|nd|rd|th)? (?:of )?"
            rf"({_MONTH})\b\.?(?:,? ({_YEAR})\b)?"
        ),
        _day_month,
    ),
    (re.compile(rf"\b({_MONTH})\.?,? ({_YEAR})\b(?!-)"), _month_year),
    (re.compile(r"(?<![\w.,$-])(?:'|((?:1\d|20)))?(\d0)'?s\b"), _decade),
    (re.compile(r"(?<!\w)'(\d{2})\b(?!')"), _short_year),
    (
        re.compile(
            r"(?<![\w:.,$/-])(\d{1,2}(?::\d{2})?(?: ?[AaPp]\.?[Mm]\.?)?) ?[-–—] ?"
            r"(?=\d{1,2}(?::\d{2})? ?[AaPp]\.?[Mm]\b|\d{1,2}:\d{2}\b)"
        ),
        _span_of_time,
    ),
    (re.compile(r"(?<![\w:.,$])(\d{1,2})\.([0-5]\d)()(?: ?([AaPp]\.?[Mm]\b\.?))"), _time),
    (re.compile(rf"(?<![\w:.])(\d{{1,2}}):(\d{{2}})(?::(\d{{2}}))?(?: ?{_HALF})?(?![:\d])"), _time),
    (re.compile(r"(?<![\w:.,$])(\d{1,2}) ?([AaPp]\.[Mm]\.?|[AaPp][Mm]\b)"), _hour),
    (re.compile(r"(?<![\w.,])(\d{1,4}) ?(B\.?C\.?E?\.?|A\.?D\.?|C\.?E\.?)(?![\w])"), _era),
)
