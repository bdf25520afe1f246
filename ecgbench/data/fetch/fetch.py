"""Authors' files from where they publish them: the Hub by huggingface_hub, Google Drive and plain
https by gdown. Whole or not at all.
"""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ecgbench.core.files import writing
from ecgbench.core.text import shortened
from ecgbench.errors import BadSetting

Progress = Callable[[int, int | None], None]
"""Receives how many bytes are here, and of how many (None: the server does not say)."""

_HUB = re.compile(r"https://huggingface\.co/([^/]+/[^/]+)/resolve/([^/]+)/([^?#]+)")
_DRIVE_FOLDER = re.compile(r"https://drive\.google\.com/drive/(?:u/\d+/)?folders/([\w-]+)")
WEB = re.compile(r"https://|http://(?:127\.0\.0\.1|localhost)[:/]")
TIMEOUT = (20.0, 60.0)
"""Seconds to wait for a connection, and between two bytes."""
_NO_CONNECTION = {"ConnectionError", "ConnectError", "Timeout", "TimeoutException", "ProxyError"}
"""Classes of requests and httpx."""
RETRIES = 3
"""Times that an interrupted transfer is taken up again."""


class DownloadError(BadSetting):
    """A file that could not be downloaded; the sentence says why, without its remedy."""


def download(url: str, file: str, folder: Path, proved: bool, progress: Progress) -> Path:
    """`file` in `folder`, downloaded from `url`; DownloadError says in half a sentence why there is
    none.

    url: a file on the Hub (`/resolve/`; HF_ENDPOINT is honoured), a file or a folder of Google
    Drive, or any https address. proved: whether a hash will show that the file is the right one and
    whole; only then is what an earlier call left there used.
    """
    # a beginning of the file as it was last month and an end of today's would make one file
    if not proved:
        shutil.rmtree(folder, ignore_errors=True)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    path = folder / Path(file).name
    try:
        if match := _HUB.match(url):
            path = _from_hub(*match.groups(), folder=folder, progress=progress)
        elif WEB.match(url):
            _from_web(_in_folder(url, file), path, progress)
        else:
            raise DownloadError(f"{url} is no address to download from")
    except DownloadError:
        raise
    except Exception as error:  # two libraries and what lies under them may fail in any way
        raise DownloadError(reason(error, url)) from None
    if not path.is_file() or not path.stat().st_size:
        raise DownloadError(f"{urlsplit(url).netloc} sent an empty file")
    return path


def _from_hub(
    repository: str, revision: str, file: str, *, folder: Path, progress: Progress
) -> Path:
    import huggingface_hub
    from huggingface_hub.utils import tqdm  # type: ignore[attr-defined]

    class Forwarding(tqdm):
        """Their progress bar, silent; it forwards to ours."""

        def __init__(self, *args: Any, **options: Any) -> None:
            self._had, self._all = int(options.get("initial") or 0), options.get("total")
            super().__init__(*args, **{**options, "disable": True})

        def update(self, n: float | None = 1) -> None:
            self._had += int(n or 0)
            progress(self._had, self._all)

    endpoint = os.environ.get("HF_ENDPOINT") or None
    address = huggingface_hub.hf_hub_url(repository, file, revision=revision, endpoint=endpoint)
    # the download itself would try for half a minute to find a network
    huggingface_hub.get_hf_file_metadata(address, timeout=TIMEOUT[0])
    path = huggingface_hub.hf_hub_download(
        repository,
        file,
        revision=revision,
        local_dir=folder,
        tqdm_class=Forwarding,
        endpoint=endpoint,
        library_name="ecgbench",
    )
    return Path(path)


def _from_web(url: str, path: Path, progress: Progress) -> None:
    import gdown

    # no cookies: gdown would keep them in the user's home
    gdown.download(
        url,
        str(path),
        quiet=True,
        use_cookies=False,
        resume=True,
        progress=progress,
        timeout=TIMEOUT,
        retries=RETRIES,
    )


def _in_folder(url: str, file: str) -> str:
    """The address of a file in a Drive folder; any other address is its own."""
    match = _DRIVE_FOLDER.match(url)
    if match is None:
        return url
    import gdown

    listed = gdown.download_folder(
        id=match[1], skip_download=True, quiet=True, use_cookies=False, timeout=TIMEOUT
    )
    same = [
        entry for entry in listed if not isinstance(entry, str) and Path(entry.path).name == file
    ]
    if len(same) != 1:
        raise DownloadError(f"the Drive folder shows {len(same)} files called {file}, not one")
    return f"https://drive.google.com/uc?id={same[0].id}"


def reason(error: Exception, url: str) -> str:
    """Why there is no file, in one line without the libraries' advice."""
    kinds, cause = set[str](), error
    while isinstance(cause, Exception):
        kinds |= {kind.__name__ for kind in type(cause).__mro__}
        cause = cause.__cause__ or cause.__context__  # type: ignore[assignment]
    message = shortened(str(error), 200)
    if "OfflineModeIsEnabled" in kinds:
        return "HF_HUB_OFFLINE is set"
    if "incomplete" in message:
        return message.partition(". The received bytes")[0]
    if kinds & _NO_CONNECTION:
        asked = os.environ.get("HF_ENDPOINT", url) if _HUB.match(url) else url
        return f"no connection to {urlsplit(asked).netloc}"
    return f"{type(error).__name__}: {message}".removesuffix(": ")
