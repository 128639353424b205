"""What each kind of transaction consists of, and when it can happen. Pure, like its callers."""

from collections.abc import Callable, Iterator

from pizzeria.shop.books import MAX_PIZZAS, Books, Row
from pizzeria.shop.house import NEW_PIZZA_FIRST, NEW_PIZZA_SECOND, SIZES
from pizzeria.shop.operations import (
    AddClient,
    AddOrder,
    AddPizza,
    DeleteOrder,
    Hold,
    Kind,
    Leave,
    MoveOrder,
    RenameClient,
    SetPizzas,
    SetPrice,
    SitDown,
    Step,
    Undone,
)

HOLD_SECONDS = (2.0, 5.0)  # of a long transaction; one at a time
NEW_PIZZA_EVERY_SECONDS = 1.0  # or a fast evening's menu would grow without end
PARTIES_MIN, PARTIES_MAX = 6, 200  # at the least no party leaves, at the most none sits down
REGULARS = 0.5  # of those who sit down without ordering yet


def sit_and_order(books: Books) -> Iterator[Step]:
    client = books.new_client()
    yield AddClient(client.number, books.name())
    party = books.new_party()
    yield SitDown(party.number, client.number, books.table())
    yield _order(books, party)


def sit_down(books: Books) -> Iterator[Step]:
    if books.usable(books.clients) and books.rng.random() < REGULARS:
        client = books.pick(books.clients)
    else:
        client = books.new_client()
        yield AddClient(client.number, books.name())
    yield SitDown(books.new_party().number, client.number, books.table())


def order(books: Books) -> Iterator[Step]:
    yield _order(books, books.pick(books.parties))


def leave(books: Books) -> Iterator[Step]:
    party = books.pick(_fed(books))
    books.parties.remove(party)
    yield Leave(party.number)


def change_order(books: Books) -> Iterator[Step]:
    yield _change(books, _order_to_change(books))


def cancel_order(books: Books) -> Iterator[Step]:
    cancelled = _order_to_change(books)
    books.orders.remove(cancelled)
    # Whoever still changes it must be done, or would find nothing to change.
    books.needs |= cancelled.touched_by - {books.transaction}
    yield DeleteOrder(cancelled.number)


def move_order(books: Books) -> Iterator[Step]:
    yield MoveOrder(_order_to_change(books).number, books.pick(books.parties).number)


def swap_pizzas(books: Books) -> Iterator[Step]:
    """One order gives its last pizza to another; an order left empty takes something new."""
    giver, taker = map(books.change, books.rng.sample(books.usable(books.orders), 2))
    taker.pizzas = (*taker.pizzas, giver.pizzas[-1])[-MAX_PIZZAS:]
    giver.pizzas = giver.pizzas[:-1] or books.pizzas()
    # In one order for all writers, so that two swaps wait and never deadlock.
    for changed in sorted((giver, taker), key=lambda row: row.number):
        yield SetPizzas(changed.number, changed.pizzas)


def two_orders(books: Books) -> Iterator[Step]:
    for party in books.rng.sample(books.usable(books.parties), 2):
        yield _order(books, books.build_on(party))


def rename_client(books: Books) -> Iterator[Step]:
    yield RenameClient(books.pick(books.clients).number, books.name())


def change_price(books: Books) -> Iterator[Step]:
    yield SetPrice(books.pick(books.menu).number, books.price())


def new_pizza(books: Books) -> Iterator[Step]:
    books.new_pizza_from = books.due + NEW_PIZZA_EVERY_SECONDS
    party = books.pick(books.parties)
    pizza = books.new_row("pizza")
    name = f"{books.rng.choice(NEW_PIZZA_FIRST)} {books.rng.choice(NEW_PIZZA_SECOND)}"
    yield AddPizza(pizza.number, f"{name} ({books.rng.choice([*SIZES])})", books.price())
    yield _order(books, party, (pizza.number,))
    books.put_on_menu(pizza)


def special_price(books: Books) -> Iterator[Step]:
    pizza = books.pick(books.menu)
    yield SetPrice(pizza.number, books.price())
    yield _order(books, books.pick(books.parties), (pizza.number,))


def savepoint(books: Books) -> Iterator[Step]:
    """An order; then, taken back: another pizza list for it, and a second order."""
    party = books.pick(books.parties)
    kept = _order(books, party)
    yield kept
    undone = AddOrder(books.new_row("order").number, party.number, books.pizzas())
    yield Undone((SetPizzas(kept.order, books.pizzas()), undone))


def aborted(books: Books) -> Iterator[Step]:
    """A party sits down and orders, another orders too, and none of it ever happened."""
    client, party = books.new_row("client").number, books.new_row("party").number
    yield AddClient(client, books.name())
    yield SitDown(party, client, books.table())
    for assignment in (party, books.pick(books.parties).number):
        yield AddOrder(books.new_row("order").number, assignment, books.pizzas())


def long(books: Books) -> Iterator[Step]:
    """A new party's order waits uncommitted for seconds; then an older order changes with it."""
    hold = round(books.rng.uniform(*HOLD_SECONDS), 2)
    changed = _order_to_change(books)
    last_step = _change(books, changed)
    yield from sit_and_order(books)
    yield Hold(hold)
    yield last_step
    books.long_until = books.due + hold
    for row in (changed, books.clients[-1], books.parties[-1], books.orders[-1]):
        row.usable_from = books.long_until


def _order(books: Books, party: Row, pizzas: tuple[int, ...] = ()) -> AddOrder:
    """An order of these pizzas and some more."""
    placed = books.new_order(party, (*pizzas, *books.pizzas()))
    return AddOrder(placed.number, party.number, placed.pizzas)


def _order_to_change(books: Books) -> Row:
    return books.change(books.pick(books.orders))


def _change(books: Books, changed: Row) -> SetPizzas:
    changed.pizzas = books.pizzas()
    return SetPizzas(changed.number, changed.pizzas)


def _fed(books: Books) -> list[Row]:
    return [party for party in books.usable(books.parties) if party.has_ordered]


STEPS: dict[Kind, Callable[[Books], Iterator[Step]]] = {
    Kind.SIT_AND_ORDER: sit_and_order,
    Kind.SIT_DOWN: sit_down,
    Kind.ORDER: order,
    Kind.LEAVE: leave,
    Kind.CHANGE_ORDER: change_order,
    Kind.CANCEL_ORDER: cancel_order,
    Kind.MOVE_ORDER: move_order,
    Kind.SWAP_PIZZAS: swap_pizzas,
    Kind.TWO_ORDERS: two_orders,
    Kind.RENAME_CLIENT: rename_client,
    Kind.CHANGE_PRICE: change_price,
    Kind.NEW_PIZZA: new_pizza,
    Kind.SPECIAL_PRICE: special_price,
    Kind.SAVEPOINT: savepoint,
    Kind.ABORTED: aborted,
    Kind.LONG: long,
}


def possible(kind: Kind, books: Books, orders_wanted: int) -> bool:
    """Whether the shop can play this kind now, with at most `orders_wanted` orders still due."""
    parties, orders = len(books.usable(books.parties)), len(books.usable(books.orders))
    return {
        Kind.SIT_AND_ORDER: len(books.parties) < PARTIES_MAX,
        Kind.SIT_DOWN: len(books.parties) < PARTIES_MAX,
        Kind.LEAVE: len(books.parties) > PARTIES_MIN and bool(_fed(books)),
        Kind.CHANGE_ORDER: orders > 0,
        Kind.CANCEL_ORDER: orders > 0,
        Kind.MOVE_ORDER: orders > 0 and parties > 0,
        Kind.SWAP_PIZZAS: orders > 1,
        Kind.TWO_ORDERS: parties > 1 and orders_wanted > 1,
        Kind.RENAME_CLIENT: bool(books.usable(books.clients)),
        Kind.CHANGE_PRICE: True,
        Kind.NEW_PIZZA: parties > 0 and books.due >= books.new_pizza_from,
        Kind.LONG: orders > 0 and books.due >= books.long_until,
    }.get(kind, parties > 0)
