# ruff: noqa: RUF001, SIM905
"""Word tables of the text front end: what abbreviations, units and symbols are read as."""

MONTHS = (
    "January February March April May June July August September October November December"
).split()
WEEKDAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()

# Full form by lower-case abbreviation, without the stop.
MONTH_BY_ABBREVIATION = {m[:3].lower(): m for m in MONTHS} | {"sept": "September"}
WEEKDAY_BY_ABBREVIATION = {d[:3].lower(): d for d in WEEKDAYS} | {
    "tues": "Tuesday",
    "thur": "Thursday",
    "thurs": "Thursday",
}

# Before a capitalised name. The lexicon knows Mr, Mrs and Dr as they stand.
TITLES = {
    "Mr": "mister",
    "Mrs": "missus",
    "Ms": "miz",
    "Dr": "doctor",
    "Prof": "professor",
    "St": "saint",
    "Mt": "mount",
    "Ft": "fort",
    "Gen": "general",
    "Gov": "governor",
    "Sen": "senator",
    "Rep": "representative",
    "Capt": "captain",
    "Lt": "lieutenant",
    "Col": "colonel",
    "Sgt": "sergeant",
    "Cmdr": "commander",
    "Rev": "reverend",
    "Hon": "honorable",
    "Pres": "president",
    "Supt": "superintendent",
    "Cpl": "corporal",
    "Maj": "major",
    "Adm": "admiral",
    "Fr": "father",
    "Msgr": "monsignor",
    "Messrs": "messieurs",
}
# Behind a street's name.
STREETS = {
    "Dr": "drive",
    "St": "street",
    "Ave": "avenue",
    "Blvd": "boulevard",
    "Rd": "road",
    "Ln": "lane",
    "Ct": "court",
    "Pl": "place",
    "Sq": "square",
    "Hwy": "highway",
    "Pkwy": "parkway",
}
# With the stop, anywhere.
ABBREVIATIONS = {
    "e.g.": "for example",
    "i.e.": "that is",
    "etc.": "et cetera",
    "vs.": "versus",
    "cf.": "compare",
    "et al.": "et al",
    "a.k.a.": "also known as",
    "approx.": "approximately",
    "est.": "established",
    "dept.": "department",
    "Dept.": "department",
    "Univ.": "university",
    "Assn.": "association",
    "Govt.": "government",
    "Jr.": "junior",
    "Sr.": "senior",
    "Ave.": "avenue",
    "Blvd.": "boulevard",
    "Rd.": "road",
    "Ln.": "lane",
    "Hwy.": "highway",
    "Pkwy.": "parkway",
    "Ste.": "suite",
    "Apt.": "apartment",
    "apt.": "apartment",
    "Bldg.": "building",
    "Ltd.": "limited",
    "Inc.": "incorporated",
    "Corp.": "corporation",
    "Co.": "company",
    "Bros.": "brothers",
    "Atty.": "attorney",
    "ext.": "extension",
    "Ext.": "extension",
    "min.": "minimum",
    "max.": "maximum",
    "misc.": "miscellaneous",
    "tel.": "telephone",
    "Tel.": "telephone",
}
# With the stop, before a number only.
NUMBERED = {
    "no": "number",
    "nos": "numbers",
    "vol": "volume",
    "fig": "figure",
    "ch": "chapter",
    "p": "page",
    "pp": "pages",
    "sec": "section",
    "art": "article",
    "eq": "equation",
}
# Singular and plural behind a number.
UNITS = {
    "km": ("kilometer", "kilometers"),
    "m": ("meter", "meters"),
    "cm": ("centimeter", "centimeters"),
    "mm": ("millimeter", "millimeters"),
    "nm": ("nanometer", "nanometers"),
    "μm": ("micrometer", "micrometers"),
    "kg": ("kilogram", "kilograms"),
    "g": ("gram", "grams"),
    "mg": ("milligram", "milligrams"),
    "mcg": ("microgram", "micrograms"),
    "μg": ("microgram", "micrograms"),
    "lb": ("pound", "pounds"),
    "lbs": ("pound", "pounds"),
    "oz": ("ounce", "ounces"),
    "ft": ("foot", "feet"),
    "in": ("inch", "inches"),
    "yd": ("yard", "yards"),
    "mi": ("mile", "miles"),
    "L": ("liter", "liters"),
    "l": ("liter", "liters"),
    "ml": ("milliliter", "milliliters"),
    "mL": ("milliliter", "milliliters"),
    "cl": ("centiliter", "centiliters"),
    "gal": ("gallon", "gallons"),
    "tbsp": ("tablespoon", "tablespoons"),
    "tsp": ("teaspoon", "teaspoons"),
    "kph": ("kilometer per hour", "kilometers per hour"),
    "km/h": ("kilometer per hour", "kilometers per hour"),
    "mph": ("mile per hour", "miles per hour"),
    "m/s": ("meter per second", "meters per second"),
    "Hz": ("hertz", "hertz"),
    "kHz": ("kilohertz", "kilohertz"),
    "MHz": ("megahertz", "megahertz"),
    "GHz": ("gigahertz", "gigahertz"),
    "KB": ("kilobyte", "kilobytes"),
    "kB": ("kilobyte", "kilobytes"),
    "MB": ("megabyte", "megabytes"),
    "GB": ("gigabyte", "gigabytes"),
    "TB": ("terabyte", "terabytes"),
    "kbps": ("kilobit per second", "kilobits per second"),
    "Mbps": ("megabit per second", "megabits per second"),
    "Gbps": ("gigabit per second", "gigabits per second"),
    "h": ("hour", "hours"),
    "hr": ("hour", "hours"),
    "hrs": ("hour", "hours"),
    "min": ("minute", "minutes"),
    "mins": ("minute", "minutes"),
    "s": ("second", "seconds"),
    "sec": ("second", "seconds"),
    "secs": ("second", "seconds"),
    "ms": ("millisecond", "milliseconds"),
    "sq ft": ("square foot", "square feet"),
    "sq mi": ("square mile", "square miles"),
    "V": ("volt", "volts"),
    "A": ("amp", "amps"),
    "W": ("watt", "watts"),
    "kW": ("kilowatt", "kilowatts"),
    "MW": ("megawatt", "megawatts"),
    "GW": ("gigawatt", "gigawatts"),
    "kWh": ("kilowatt hour", "kilowatt hours"),
    "mAh": ("milliamp hour", "milliamp hours"),
    "fps": ("frame per second", "frames per second"),
    "dB": ("decibel", "decibels"),
    "cc": ("cubic centimeter", "cubic centimeters"),
    "kcal": ("kilocalorie", "kilocalories"),
    "cal": ("calorie", "calories"),
    "pct": ("percent", "percent"),
    "bpm": ("beat per minute", "beats per minute"),
    "rpm": ("revolution per minute", "revolutions per minute"),
    "mmHg": ("millimeter of mercury", "millimeters of mercury"),
    "hPa": ("hectopascal", "hectopascals"),
    "px": ("pixel", "pixels"),
    "ha": ("hectare", "hectares"),
}
# Glued to the number only ("5m", not "5 m"): behind a space these are words or letters too often.
GLUED_UNITS = frozenset(("in", "h", "s", "A", "L", "l", "V", "W", "g", "m", "cal", "ha", "min"))
SPACED_TOO = frozenset(("m", "g", "h", "s", "L", "l", "V", "W", "min", "cal", "ha"))

CURRENCIES = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "US$": ("US dollar", "US dollars", "cent", "cents"),
    "£": ("pound", "pounds", "pence", "pence"),
    "€": ("euro", "euros", "cent", "cents"),
    "¥": ("yen", "yen", "", ""),
    "₹": ("rupee", "rupees", "paisa", "paise"),
    "₩": ("won", "won", "", ""),
    "USD": ("dollar", "dollars", "cent", "cents"),
    "EUR": ("euro", "euros", "cent", "cents"),
    "GBP": ("pound", "pounds", "pence", "pence"),
    "JPY": ("yen", "yen", "", ""),
}
MAGNITUDES = {
    "k": "thousand",
    "m": "million",
    "mn": "million",
    "mm": "million",
    "b": "billion",
    "bn": "billion",
    "t": "trillion",
    "tn": "trillion",
    "hundred": "hundred",
    "thousand": "thousand",
    "million": "million",
    "billion": "billion",
    "trillion": "trillion",
}
VULGAR_FRACTIONS = {
    "½": "1/2",
    "¼": "1/4",
    "¾": "3/4",
    "⅓": "1/3",
    "⅔": "2/3",
    "⅛": "1/8",
    "⅜": "3/8",
    "⅝": "5/8",
    "⅞": "7/8",
}
DENOMINATORS = {"2": ("half", "halves"), "4": ("quarter", "quarters")}
# Symbols that are still there when all other rules have run.
SYMBOLS = {
    "%": "percent",
    "&": "and",
    "+": "plus",
    "=": "equals",
    "<": "is less than",
    ">": "is greater than",
    "≤": "is at most",
    "≥": "is at least",
    "≠": "is not",
    "≈": "is about",
    "±": "plus or minus",
    "×": "times",
    "÷": "divided by",
    "°": "degrees",
    "©": "copyright",
    "§": "section",
    "→": "to",
    "@": "at",
    "$": "dollars",
    "£": "pounds",
    "€": "euros",
    "¢": "cents",
    "²": "squared",
    "³": "cubed",
}
GREEK = {
    "α": "alpha",
    "β": "beta",
    "γ": "gamma",
    "δ": "delta",
    "ε": "epsilon",
    "ζ": "zeta",
    "η": "eta",
    "θ": "theta",
    "ι": "iota",
    "κ": "kappa",
    "λ": "lambda",
    "μ": "mu",
    "ν": "nu",
    "ξ": "xi",
    "ο": "omicron",
    "π": "pi",
    "ρ": "rho",
    "ς": "sigma",
    "σ": "sigma",
    "τ": "tau",
    "υ": "upsilon",
    "φ": "phi",
    "χ": "chi",
    "ψ": "psi",
    "ω": "omega",
}
ROMAN_CARDINAL = (
    "chapter part act scene section volume book phase article war mark type level stage class grade"
    " bowl apollo gemini fantasy episode round rocky appendix figure table unit tier title"
).split()
ROMAN_ORDINAL = (
    "Pope King Queen Henry Louis Edward George William Charles James Richard Elizabeth Napoleon"
    " Pius Benedict Leo Paul Ramses Frederick Philip Alexander Nicholas Peter Catherine Ivan"
    " Umberto Emmanuel Gustav Christian Ferdinand Mary Margaret John Francis Clement Gregory"
).split()
TOP_LEVEL_DOMAINS = (
    "com org net edu gov io co uk de fr info biz us ca au tv me ly ai app dev eu ch jp in nl"
).split()
FILE_EXTENSIONS = (
    "pdf txt doc docx xls xlsx ppt pptx csv json xml html htm css js ts py rs go c cpp h java sh md"
    " png jpg jpeg gif svg mp3 mp4 wav zip gz tar exe toml yaml yml log ini cfg ipynb sql"
).split()
# Ends of names and addresses that are said letter by letter though they have a vowel.
SPELLED_ENDINGS = (
    frozenset(FILE_EXTENSIONS) | {"uk", "us", "au", "ca", "tv", "ai", "io", "eu"}
) - {"doc", "zip", "tar", "log", "go", "toml", "yaml", "java", "wav", "gif"}
ADDRESS_SYMBOLS = {
    ".": "dot",
    "/": "slash",
    "_": "underscore",
    "-": "dash",
    "@": "at",
    "+": "plus",
    "?": "question mark",
    "=": "equals",
    "&": "and",
    "%": "percent",
    "#": "hash",
    "~": "tilde",
    ":": "colon",
}
