"""Original sentence templates in the manner of a spoken assistant, a newscast and a storyteller.

A template is a line of text with `{slot}` marks; `fill` expands them recursively from `SLOTS`.
Nothing here is taken from a published text. The module knows nothing about speech.
"""

# ruff: noqa: E501  a template or list of words is one line
import random
import re

SLOTS: dict[str, str] = {
    "name": (
        "Anna|James|Maria|Robert|Sofia|Thomas|Julia|Peter|Emma|David|Laura|Henry|Olivia|George|Hannah|"
        "Victor|Grace|Oscar|Ruby|Samuel|Zoe|Philip|Chloe|Arthur|Judith|Joyce|Hugh|Faith|Priya|Omar|"
        "Elena|Marcus|Yuki|Ingrid|Diego|Fatima|Patrick|Beatrice|Leonard|Amara|Kenji|Rosa|Walter|Nina"
    ),
    "family": (
        "your mother|your father|your brother|your aunt|your uncle|your cousin|your neighbor|"
        "your manager|your landlord|your dentist|your doctor|your accountant|your daughter|your son|"
        "the plumber|the electrician|the coach|your roommate|your grandfather|the babysitter"
    ),
    "day": "Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday|tomorrow|the weekend",
    "month": (
        "January|February|March|April|May|June|July|August|September|October|November|December"
    ),
    "ordinal": (
        "first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|eleventh|twelfth|thirteenth|"
        "fourteenth|fifteenth|sixteenth|seventeenth|eighteenth|nineteenth|twentieth|twenty first|"
        "twenty second|twenty third|twenty fourth|twenty fifth|twenty sixth|twenty ninth|thirty first"
    ),
    "digit": "one|two|three|four|five|six|seven|eight|nine|zero",
    "small": (
        "two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|"
        "seventeen|eighteen|nineteen|twenty"
    ),
    "tens": "twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety",
    "number": (
        "{small}|{tens}|{tens} {digit}|{tens} {digit}|{digit} hundred|{digit} hundred {tens} {digit}|"
        "{digit} hundred and {small}|{digit} thousand|{digit} thousand {digit} hundred|{small}"
    ),
    "hour": "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|noon|midnight",
    "time": (
        "{hour}|{hour} fifteen|{hour} thirty|{hour} forty five|half past {hour}|a quarter past {hour}|"
        "a quarter to {hour}|{hour} twenty|{hour} oh five|{hour} ten|ten to {hour}|{hour} fifty"
    ),
    "when": (
        "this morning|this afternoon|tonight|at {time}|on {day}|by {day}|next week|yesterday|"
        "in {small} minutes|in {number} days|before lunch|after dinner|early {day}|at noon|"
        "on {month} {ordinal}|around {time}|later today|last night|within the hour|over the weekend"
    ),
    "city": (
        "London|Paris|Boston|Chicago|Oxford|Berlin|Madrid|Tokyo|Dublin|Geneva|Cairo|Sydney|Toronto|"
        "Seattle|Atlanta|Vienna|Prague|Oslo|Athens|Nairobi|Lima|Houston|Portland|Quebec|Milan|"
        "Singapore|Edinburgh|Baltimore|Savannah|Helsinki|Budapest|Jakarta|Charlotte|Memphis|Tulsa"
    ),
    "street": (
        "Oak Street|Pine Avenue|Church Road|Station Lane|Chestnut Drive|Lincoln Avenue|Mill Road|"
        "Harbor Street|Fifth Avenue|Garden Lane|Bridge Street|Elm Court|Washington Square|Cherry Lane"
    ),
    "place": (
        "the library|the bank|the school|the hospital|the market|the station|the harbor|the theater|"
        "the pharmacy|the town hall|the swimming pool|the gas station|the cathedral|the warehouse|"
        "the museum|the airport|the garden center|the stadium|the bakery|the castle|the power plant|"
        "the old mill|the lighthouse|the courthouse|the lake|the car park|the golf course|the quarry"
    ),
    "room": (
        "kitchen|bathroom|bedroom|hallway|garage|cellar|attic|living room|laundry room|study|porch|"
        "dining room|nursery|greenhouse|conference room|waiting room|workshop"
    ),
    "device": (
        "printer|router|thermostat|dishwasher|washing machine|alarm clock|camera|doorbell|speaker|"
        "television|laptop|tablet|phone|keyboard|microphone|vacuum cleaner|heater|fan|oven|scanner|"
        "projector|radio|charger|headset|smoke detector|sprinkler|dryer|freezer|monitor|watch"
    ),
    "food": (
        "orange juice|fresh bread|chicken soup|cheese|strawberry jam|vegetable curry|chocolate cake|"
        "green tea|mashed potatoes|roasted peppers|apple pie|noodles|yogurt|scrambled eggs|rice|honey|"
        "mushrooms|spinach|grilled fish|walnuts|black coffee|pancakes|lemonade|cabbage|pumpkin soup|"
        "zucchini|blueberries|goat cheese|sausages|oatmeal|turkey|peaches|broccoli|cinnamon rolls"
    ),
    "ingredient": (
        "flour|sugar|butter|cream|salt|pepper|vinegar|olive oil|milk|the onions|the garlic|the beans|"
        "the tomatoes|the carrots|the celery|ginger|cumin|thyme|basil|parsley|mustard|the mushrooms|"
        "the chopped nuts|lime juice|the shrimp|the stock|the yeast|vanilla|the egg whites|the zest"
    ),
    "vessel": (
        "a large pan|a small bowl|a heavy pot|the oven|a glass dish|a skillet|a clean jar|the fridge"
    ),
    "amount": (
        "a cup|a pinch|half a cup|two spoonfuls|a handful|three slices|a quarter pound|a dash|a jar"
    ),
    "adj": (
        "quiet|bright|heavy|young|gentle|strange|thick|rough|smooth|huge|foolish|clever|yellow|purple|"
        "narrow|warm|cheap|royal|usual|ancient|fragile|hollow|stubborn|graceful|dusty|cheerful|weary|"
        "polite|sharp|bitter|shallow|golden|crooked|silent|brave|anxious|generous|curious|frozen|"
        "humble|sturdy|wild|pale|shiny|lonely|wooden|useful|dangerous|familiar|enormous|delicate|odd"
    ),
    "color": "red|blue|green|white|black|gray|orange|brown|silver|pink|violet|scarlet|turquoise|beige",
    "animal": (
        "dog|cat|horse|fox|owl|rabbit|goose|squirrel|turtle|wolf|spider|donkey|sparrow|whale|goat|"
        "tiger|monkey|snake|hedgehog|pigeon|dolphin|raven|moth|beaver|badger|camel|peacock|lizard"
    ),
    "person": (
        "teacher|judge|farmer|sailor|nurse|painter|carpenter|widow|soldier|thief|baker|captain|pilot|"
        "gardener|musician|lawyer|child|stranger|doctor|professor|shepherd|waiter|engineer|poet|clerk|"
        "detective|librarian|mechanic|singer|merchant|tailor|watchmaker|guard|journalist|scholar"
    ),
    "object": (
        "box|letter|lamp|bridge|umbrella|mirror|ladder|clock|basket|blanket|bottle|candle|map|key|"
        "bucket|chair|curtain|drawer|engine|feather|glove|hammer|jacket|kettle|necklace|painting|"
        "pillow|ring|saddle|suitcase|trumpet|violin|wallet|whistle|wheel|window|barrel|bench|coin"
    ),
    "thing": "{adj} {object}|{color} {object}|{object}|{adj} {color} {object}|{adj} {animal}|{animal}",
    "verbed": (
        "watched|carried|painted|followed|forgot|found|borrowed|described|noticed|repaired|sold|stole|"
        "admired|dropped|ignored|measured|hid|chased|pushed|lifted|buried|polished|guarded|discovered|"
        "inherited|photographed|recognized|returned|searched for|wrapped|pulled|avoided|trusted|fixed"
    ),
    "where": (
        "near {place}|behind {place}|in the {room}|under the table|on the {adj} hill|by the river|"
        "across the road|in {city}|at the edge of the forest|beside the {adj} {object}|along the coast|"
        "at the top of the stairs|outside {place}|between two {adj} houses|in the corner|over the wall"
    ),
    "adverb": (
        "slowly|quietly|carefully|suddenly|gladly|barely|rarely|usually|quickly|gently|finally|almost|"
        "never|always|eventually|honestly|probably|certainly|perhaps|calmly|bravely|recently|briefly"
    ),
    "money": (
        "{number} dollars|{number} dollars|{number} euros|{number} pounds|{small} dollars and {tens} cents"
    ),
    "company": (
        "the bank|the airline|the insurance company|the water company|the phone company|the hotel|"
        "the delivery service|the clinic|the bookstore|the gym|the electric company|the school office"
    ),
    "item": (
        "the {color} {object}|your {color} jacket|the running shoes|a pair of gloves|the {device}|"
        "your new {device}|the birthday present|two boxes of tea|the spare battery|the concert tickets|"
        "a set of towels|the wool sweater|your winter boots|the office chair|a bag of soil|the textbook"
    ),
    "sky": (
        "rain|snow|fog|thunder|hail|wind|drizzle|sunshine|frost|sleet|clouds|heat|a light breeze|mist|"
        "heavy showers|scattered storms|freezing rain|clear skies|gusty wind|haze"
    ),
    "event": (
        "dentist appointment|meeting|piano lesson|job interview|haircut|lunch with {name}|flight|"
        "parent conference|yoga class|call with {name}|checkup|rehearsal|concert|wedding|book club|"
        "car inspection|guitar lesson|budget review|training session|exam|soccer practice|reunion"
    ),
    "subject": (
        "the {adj} {person}|a {adj} {person}|the {person}|my {adj} {person}|{name}|the {animal}|"
        "{name} and {name}|nobody|everyone|the {adj} {animal}|the {person} from {city}|our neighbors"
    ),
    "ving": (
        "walking|singing|waiting|laughing|reading|sleeping|fishing|arguing|whispering|climbing|cooking|"
        "digging|dancing|swimming|writing|thinking|shouting|sewing|weeping|resting|training|hunting"
    ),
    "official": (
        "the mayor|the minister|the council|the committee|the union|the governor|the company|the court|"
        "the police|the university|the hospital|the agency|the president|the board|the treasury|"
        "the foundation|researchers|engineers|officials|voters|doctors|economists|analysts|residents"
    ),
    "newsdid": (
        "approved|rejected|announced|delayed|questioned|welcomed|criticized|defended|opened|closed|"
        "reviewed|abandoned|supported|launched|expanded|reduced|suspended|proposed|doubled|canceled"
    ),
    "newsthing": (
        "the new tax|the housing plan|the railway project|the budget|the merger|the vaccine trial|"
        "the water treatment plant|the highway|the peace agreement|the election results|the strike|"
        "the climate report|a trade deal|the satellite launch|the school reform|an emergency fund|"
        "the hospital wing|the border crossing|a wildlife reserve|the fishing quota|the rent freeze"
    ),
    "bodypart": "shoulder|knee|ankle|wrist|elbow|back|neck|throat|ear|thumb|heel|jaw|forehead|chest",
    "exercise": "walk|run|swim|bike ride|stretch|workout|hike|nap|breathing exercise|warm up",
    "file": (
        "photo|document|spreadsheet|folder|message|backup|video|contract|invoice|report|recording|"
        "presentation|calendar|password|application|bookmark|attachment|draft|playlist|receipt"
    ),
    "verbfile": "delete|rename|open|move|copy|print|share|download|upload|restore|save|attach|archive",
    "direction": "left|right|north|south|east|west",
    "wow": (
        "Wow|Oh|Goodness|Well|Hooray|Dear me|Honestly|Okay|Sure|Great|Alright|Sorry|Of course|Actually|"
        "Unfortunately|Good news|Heads up|By the way|Certainly|Absolutely|No problem|Got it|Thanks"
    ),
}

ASSISTANT = """
I have set a timer for {number} minutes.|The {event} with {name} starts at {time}.|Sure, I can turn off the {device} for you.
Would you like me to check the {device} again?|Okay, {name} will call you back {when}.|It is {number} degrees in {city} right now.
Your package should arrive on {month} {ordinal}.|Sorry, I could not find the {file}.|The train to {city} leaves from platform {small}.
How about {food} and {food} for lunch?|That will cost about {money}.|Do you want to add {food} to the list?
I found {number} results for {food}.|Hello {name}, how can I help you today?|There are {number} new messages from {name}.
Turn {direction} after {number} meters, then keep {direction}.|My favorite meal is {food}, but {name} prefers {food}.
Your {event} has been moved to {when}.|I've added {item} to your cart.|The {device} in the {room} is now off.
You have {small} openings on {day}, and {small} of them are after {time}.|Take the {ordinal} exit toward {city}, then stay in the {direction} lane.
Please restart the {device}, wait {number} seconds, and try again.|If the {device} stays {color}, hold down the button until it blinks.
Your balance is {money}, which is {money} more than last month.|A payment of {money} to {company} is due {when}.
Add {amount} of {ingredient}, and stir until it thickens.|Let {ingredient} rest in {vessel} for about {number} minutes.
Heat {ingredient} in {vessel} over a low flame.|Pour {ingredient} into {vessel}, then add {ingredient} and {ingredient}.
Chop {ingredient} finely, mix it with {ingredient}, and bake for {number} minutes.|Expect {sky} {when}, with a low of {number} degrees.
There's a {tens} percent chance of {sky} {when}.|{sky} is likely near {place}, but {city} should stay dry.|Bring an umbrella, because {sky} will reach {city} {when}.
You walked {number} steps today, and a short {exercise} would complete your goal.|Don't forget to stretch your {bodypart} before the {exercise}.
Your order of {item} was shipped {when}.|The seller has accepted your return, and {money} will be refunded {when}.
I can't reach the {device}, so please check that it is plugged in.|To {verbfile} the {file}, open the menu and scroll down to settings.
I noticed that the {file} is missing, so I tried to {verbfile} it again.|Should I {verbfile} the {file}, or would you rather keep it?
{wow}, I've booked a table for {small} at {time}.|{wow}, your {event} is {when}.|{wow}, {family} just arrived at the door.
Could you tell {family} that the {event} starts at {time}?|{family} called {when} and asked about the {item}.
The fastest way to {place} avoids the bridge and saves you {small} minutes.|Walk {small} blocks {direction} along {street}, and {place} will be on your {direction}.
Head {direction} on {street}, cross at the light, and look for {place}.|There's an accident near {place}, so leave {small} minutes early.
Your flight to {city} leaves at {time} from gate {number}.|Boarding for {city} begins in {number} minutes.|The hotel in {city} costs {money} a night, and breakfast is included.
Your reservation number is {digit} {digit} {digit} {digit} {digit}.|Please say the number {digit} {digit} {digit} {digit} again.|The code is {digit}, {digit}, {digit}, {digit}.
Call {digit} {digit} {digit}, {digit} {digit} {digit} {digit}, and ask for {name}.|Which {object} do you like better, the {color} one or the {color} one?
Did you mean {name} from {city} or {name} from {city}?|Can you say that again, a little louder?|What time should I wake you {when}?
Because {company} is closed {when}, I moved your {event} to {day}.|If you leave at {time}, you'll reach {place} before {time}.
Since it's {adj} outside, I've turned up the heat in the {room}.|Remember to take your {adj} {object} with you, because {sky} is expected.
You slept {small} hours and {number} minutes last night.|Your heart rate during the {exercise} was {number}, which is slightly {adj}.
Try a short {exercise}, drink some water, and rest your {bodypart}.|It's time for your {event}.|The {room} light is on.|Your tea is ready.
I'm sorry about the trouble with your {device}.|That's a great question.|Here's what I found about {food}.|Is there anything else I can do?
Your {device} has less than {number} percent battery left.|The update takes about {number} minutes, and you can keep working meanwhile.
The {event} clashes with your {event}, so would you like me to suggest another day?|I kept the {color} {object} and returned the {color} one.
For {small} servings you'll need {amount} of {ingredient}, {amount} of {ingredient}, and some {food}.|The {color} cable goes into the {adj} socket behind the {device}.
Someone tried to use your card in {city}, so I've blocked it.|Your car is parked on {street}, next to a {color} van.|Your rent of {money} was paid {when}.
You spent {money} on {food} last month, which is more than {family} did.|The visa form asks for the date, the {object}, and the name of {family}.
"""
STORY = """
{subject} {verbed} the {thing} {where}.|{subject} was {ving} {where}.|The {thing} was {adj} and {adj}.|{subject} {adverb} {verbed} a {thing}.
When {subject} {verbed} the {thing}, {subject} was {ving} {where}.|After the {adj} winter, {subject} {verbed} the {thing} {where}.
{name} said that the {thing} had been {where}.|It was a {adj} {object}, and {subject} {verbed} it {adverb}.|{subject} had never seen such a {adj} {thing}.
If {subject} {verbed} the {thing}, who {verbed} the {thing}?|Why was {subject} {ving} {where}?|Where is the {thing} that {subject} {verbed}?
Have you ever {verbed} a {thing} {where}?|{wow}, what a {adj} {thing}!|{wow}, look at that {thing} {where}.|The {person} and the {person} {verbed} each other {where}.
{subject} {verbed} the {object}, the {object}, and the {object}.|Nobody knew why the {person} {verbed} the {thing}.|The {color} {object} belongs to the {person} from {city}.
{official} {newsdid} {newsthing} {when}.|{official} {newsdid} {newsthing}, saying that it was too {adj}.|In {city}, {official} {newsdid} {newsthing} after {official} {newsdid} {newsthing}.
Prices rose by {number} percent in {month}, according to {official}.|More than {number} people gathered {where} {when}.|{official} said on {day} that {newsthing} would be {adj}.
Although {official} {newsdid} {newsthing}, {official} {newsdid} {newsthing} within {small} weeks.|The {person}, who had been {ving} {where}, {verbed} the {thing}.
Each of the {small} {object}s was {adj}, {adj}, and {adj}.|There were {number} {animal}s {where}, and all of them were {ving}.|My {person} kept a {thing} in the {room}.
{subject} opened the {object}, {verbed} the {object}, and left.|Long ago, a {adj} {person} lived {where}.|Then {subject} {verbed} the {object} and said nothing.
The {adj} {animal} and the {adj} {animal} were {ving} {where}.|{adverb}, {subject} {verbed} the {thing}.|{name} lost a {thing} {where}, but {name} found it {when}.
A {adj}, {adj} {animal} slept {where} through the whole {event}.|He {verbed} it.|She {verbed} them all.|They were {adj}.|{subject} {verbed} us.|We {verbed} the {object} {when}.
"""


def _lines(block: str) -> list[str]:
    return [part.strip() for line in block.strip().splitlines() for part in line.split("|")]


TEMPLATES: tuple[str, ...] = tuple(_lines(ASSISTANT) * 2 + _lines(STORY) * 3)
_CHOICES = {name: text.split("|") for name, text in SLOTS.items()}
_SLOT = re.compile(r"\{(\w+)\}")
_ARTICLE = re.compile(r"\b([Aa]) (?=[aeiouAEIOU])")


def fill(template: str, rng: random.Random) -> str:
    """Expand every slot of `template`, fix "a" before a vowel, and capitalise the first letter."""
    while "{" in template:
        template = _SLOT.sub(lambda m: rng.choice(_CHOICES[m.group(1)]), template)
    text = _ARTICLE.sub(r"\1n ", template)
    return text[0].upper() + text[1:]


def sentences(count: int, rng: random.Random) -> list[str]:
    """Return `count` distinct filled templates, in random order."""
    seen: dict[str, None] = {}
    while len(seen) < count:
        seen.setdefault(fill(rng.choice(TEMPLATES), rng))
    return list(seen)
