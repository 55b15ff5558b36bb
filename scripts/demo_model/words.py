"""The words that the training text is made of.

Lists are short on purpose: a model of 0.7 million parameters learns them whole, so that its output is
recognisable. A few words are not ASCII, so that characters of two, three and four bytes occur in the text and
in the tokenizer's merges.
"""

FIRST_NAMES: tuple[str, ...] = (
    "Ana", "Ben", "Clara", "David", "Emma", "Felix", "Grace", "Hugo", "Ines", "Jack", "Karen", "Leo",
    "Maria", "Noah", "Olivia", "Paul", "Rosa", "Sam", "Tara", "Victor", "José", "Zoë", "Jürgen", "Renée",
    "Søren", "Chloé",
)  # fmt: skip
LAST_NAMES: tuple[str, ...] = (
    "Adams", "Brown", "Clark", "Davis", "Evans", "Fischer", "Garcia", "Hill", "Jones", "Klein", "Lopez",
    "Martin", "Novak", "Olsen", "Parker", "Rossi", "Smith", "Torres", "Walker", "Young", "Müller",
    "Núñez", "Dvořák", "Weiß",
)  # fmt: skip
DOMAINS: tuple[str, ...] = ("example.com", "example.org", "example.net", "mail.example.com")

# City, country.
CITIES: tuple[tuple[str, str], ...] = (
    ("Paris", "France"), ("Lyon", "France"), ("Berlin", "Germany"), ("München", "Germany"),
    ("Rome", "Italy"), ("Milan", "Italy"), ("Madrid", "Spain"), ("Málaga", "Spain"),
    ("London", "England"), ("Oslo", "Norway"), ("Lisbon", "Portugal"), ("Zürich", "Switzerland"),
    ("東京", "Japan"), ("北京", "China"), ("Toronto", "Canada"), ("Cairo", "Egypt"),
)  # fmt: skip
COUNTRIES: tuple[str, ...] = tuple(dict.fromkeys(country for _, country in CITIES))

MONTHS: tuple[str, ...] = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
    "November", "December",
)  # fmt: skip
WEEKDAYS: tuple[str, ...] = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

# The members and the name of each category: "Fruits: apple, pear", "Question: Is a pear a fruit?".
CATEGORIES: dict[str, tuple[str, ...]] = {
    "fruit": ("apple", "pear", "plum", "banana", "orange", "cherry", "lemon", "mango"),
    "animal": ("cat", "dog", "horse", "rabbit", "fox", "bear", "bird", "sheep"),
    "colour": ("red", "green", "blue", "yellow", "black", "white", "brown", "purple"),
    "tool": ("hammer", "saw", "drill", "knife", "brush", "ladder", "shovel", "wrench"),
}
# What is sold, and its usual price in whole units.
PRODUCTS: dict[str, int] = {
    "coffee": 3, "tea": 2, "café au lait": 4, "bread": 3, "book": 15, "lamp": 40, "chair": 60,
    "table": 120, "pen": 2, "phone": 300, "bicycle": 450, "jacket": 80, "ticket": 25, "camera": 350,
}  # fmt: skip
GROCERIES: tuple[str, ...] = (
    "milk", "bread", "eggs", "cheese", "butter", "rice", "apples", "tomatoes", "coffee", "tea", "sugar",
    "jalapeños", "crème fraîche",
)  # fmt: skip
DATED_THINGS: tuple[str, ...] = (
    "invoice", "contract", "letter", "report", "order", "receipt", "photo", "ticket",
)  # fmt: skip
EVENTS: tuple[str, ...] = ("meeting", "concert", "exam", "party", "flight", "wedding", "lecture", "match")
ROLES: tuple[str, ...] = ("engineer", "teacher", "doctor", "lawyer", "artist", "pilot", "baker", "student")
STATUSES: tuple[str, ...] = ("open", "paid", "shipped", "cancelled")

PEOPLE: tuple[str, ...] = (
    "teacher", "doctor", "farmer", "girl", "boy", "old man", "young woman", "driver", "neighbour",
)  # fmt: skip
ADJECTIVES: tuple[str, ...] = ("small", "big", "quiet", "happy", "tired", "clever", "hungry", "friendly")
PLACES: tuple[str, ...] = (
    "in the garden", "at the station", "near the river", "in the kitchen", "on the hill", "at the café",
    "by the sea", "in the park",
)  # fmt: skip
DOES_ALONE: tuple[str, ...] = ("sleeps", "waits", "sings", "plays", "works", "runs", "eats", "laughs")
DOES_TO: tuple[str, ...] = ("sees", "likes", "follows", "feeds", "paints", "finds", "watches", "helps")
TIMES_OF_DAY: tuple[str, ...] = (
    "in the morning", "in the evening", "every day", "at noon", "on Sunday", "at night",
)  # fmt: skip

REVIEWED: tuple[str, ...] = ("food", "film", "hotel", "book", "service", "music", "room", "coffee")
GOOD: tuple[str, ...] = ("great", "wonderful", "excellent", "lovely 😀", "perfect 🎉")
BAD: tuple[str, ...] = ("terrible", "awful", "boring", "too expensive", "very bad 😢")

LOG_MESSAGES: dict[str, tuple[str, ...]] = {
    "INFO": ("server started", "user logged in", "file saved", "job finished"),
    "WARNING": ("disk almost full", "slow response", "password expires soon"),
    "ERROR": ("connection lost", "file not found", "access denied"),
}
