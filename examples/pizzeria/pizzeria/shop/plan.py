"""Plans what happens in the shop: transactions, one after the other, from a seed.

Pure: no clock, no database. The same arguments give the same transactions, number by number;
how they interleave when several writers apply them is the database's affair.
"""

import random
from collections.abc import Iterator

from pizzeria.shop.books import Books
from pizzeria.shop.evening import STEPS, possible
from pizzeria.shop.operations import Kind, Transaction

# Cards of each kind in a deck of 100 transactions, dealt shuffled and whole, so that even a short
# evening holds every kind. About as many parties leave as sit down, so the room stays as full.
DECK = {
    Kind.ORDER: 28,  # most of what a shop does
    Kind.LEAVE: 20,  # an assignment changes, and no order's answer with it
    Kind.SIT_AND_ORDER: 16,  # client, assignment and order are born in one transaction
    Kind.CHANGE_ORDER: 9,  # several changes of one order
    Kind.SIT_DOWN: 5,  # dimensions that are older than their first order
    Kind.CANCEL_ORDER: 4,  # deletes
    Kind.ABORTED: 3,  # must leave no trace anywhere
    Kind.MOVE_ORDER: 2,  # the order's client and table change, its pizzas do not
    Kind.SWAP_PIZZAS: 2,  # two orders change together or not at all
    Kind.TWO_ORDERS: 2,
    Kind.RENAME_CLIENT: 2,  # drift: earlier orders keep the old name in a stream
    Kind.CHANGE_PRICE: 2,  # drift, and waits between writers
    Kind.SAVEPOINT: 2,  # part of a transaction leaves no trace; xmin is not the transaction's id
    Kind.NEW_PIZZA: 1,  # an order of a pizza that only its own transaction has put on the menu
    Kind.SPECIAL_PRICE: 1,  # an order at a price of its own transaction; two may deadlock
    Kind.LONG: 1,  # begins early, commits late
}


def plan(
    *, seed: int, rate: float, seconds: float, menu_size: int, table_count: int
) -> Iterator[Transaction]:
    """Yield transactions by due time until floor(rate * seconds) orders have been placed.

    `rate` is orders a second that commit; the other kinds come between them, shared out by DECK.
    The shop has `menu_size` pizzas and `table_count` tables to begin with, one of each at least.
    """
    rng = random.Random(seed)  # noqa: S311 - a plan, not a secret
    books = Books(rng, menu_size, table_count)
    deck: list[Kind] = []
    placed, wanted = 0, int(rate * seconds)
    while placed < wanted:
        books.open_transaction(due=placed / rate)
        kind = _deal(deck, books, wanted - placed)
        steps = tuple(STEPS[kind](books))
        transaction = Transaction(books.transaction, kind, books.due, steps, frozenset(books.needs))
        placed += transaction.placed_orders
        yield transaction


def _deal(deck: list[Kind], books: Books, orders_wanted: int) -> Kind:
    """Take the deck's first card that can be played now; a fresh deck when it has none."""
    playable = _first_playable(deck, books, orders_wanted)
    if playable is None:
        deck[:] = [kind for kind, cards in DECK.items() for _ in range(cards)]
        books.rng.shuffle(deck)
        playable = _first_playable(deck, books, orders_wanted)
    return deck.pop(playable)


def _first_playable(deck: list[Kind], books: Books, orders_wanted: int) -> int | None:
    places = (place for place, kind in enumerate(deck) if possible(kind, books, orders_wanted))
    return next(places, None)
