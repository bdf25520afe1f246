"""A cache of arrays: the most recently used ones stay in memory, up to a limit."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, ClassVar, Generic, TypeVar
from weakref import WeakSet

T = TypeVar("T")


class Recent(Generic[T]):
    """Results by key, until newer ones fill `most` bytes.

    >>> recent = Recent(size=len, most=3)
    >>> [recent(name, lambda: name * 2) for name in ("a", "b", "a")]
    ['aa', 'bb', 'aa']
    >>> list(recent.known)
    ['a']
    """

    _every: ClassVar["WeakSet[Recent[Any]]"] = WeakSet()

    def __init__(self, size: Callable[[T], int], most: int) -> None:
        self._every.add(self)
        self.known: OrderedDict[Hashable, T] = OrderedDict()
        self._size, self._most, self._now = size, most, 0

    def __call__(self, key: Hashable, make: Callable[[], T]) -> T:
        """The cached array, or a new one; the last one is always kept."""
        if key not in self.known:
            self.known[key] = make()
            self._now += self._size(self.known[key])
        self.known.move_to_end(key)
        while self._now > self._most and len(self.known) > 1:
            self._now -= self._size(self.known.popitem(last=False)[1])
        return self.known[key]

    @classmethod
    def forget(cls) -> None:
        """Empty the cache after a stage."""
        for recent in cls._every:
            recent.known.clear()
            recent._now = 0
