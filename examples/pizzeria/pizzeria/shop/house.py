"""The house's own menu, for a shop that opens with an empty database. Names and prices, no code."""

from decimal import Decimal

SIZES = {"S": Decimal(0), "M": Decimal("2.50"), "L": Decimal("4.75")}
_SMALL_PRICES = {
    "Lockkeeper": "9.25",
    "Two Rivers": "10.50",
    "Old Mill": "9.75",
    "Night Shift": "11.25",
    "Green Gate": "8.95",
    "Lighthouse": "12.40",
    "Ferryman": "10.90",
    "Red Brick": "9.60",
}
MENU = tuple(
    (f"{name} ({size})", Decimal(small) + extra)
    for name, small in _SMALL_PRICES.items()
    for size, extra in SIZES.items()
)
TABLES = tuple(f"Table {number}" for number in range(1, 25))

# A new pizza is called by one of each.
NEW_PIZZA_FIRST = ("Autumn", "Copper", "Golden", "Harbour", "Midnight", "Orchard", "Silver", "Wild")
NEW_PIZZA_SECOND = ("Anchor", "Bridge", "Lantern", "Meadow", "Smoke", "Tide", "Valley", "Whistle")
