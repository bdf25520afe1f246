"""Who hears what `ecgbench models fetch` says."""


class Ear:
    def __init__(self) -> None:
        self.heard: list[str] = []

    def note(self, text: str) -> None:
        self.heard.append(text)

    def progress(self, done: int, total: int | None) -> None: ...
