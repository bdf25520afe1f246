"""Downloads authors' weights: from Google Drive by gdown, from the Hub and other addresses by
`resumed`. Whole or not at all.
"""

import os
import re
import shutil
from pathlib import Path
from urllib.parse import urlsplit

from ecgbench.cards.dataset import Download
from ecgbench.core.files import writing
from ecgbench.core.text import shortened
from ecgbench.data.fetch import resumed
from ecgbench.data.fetch.resumed import TIMEOUT, DownloadError, Progress

HUB = "https://huggingface.co/"
_DRIVE = re.compile(r"https://drive\.google\.com/")
_DRIVE_FOLDER = re.compile(r"https://drive\.google\.com/drive/(?:u/\d+/)?folders/([\w-]+)")
_NO_CONNECTION = {"ConnectionError", "ConnectError", "Timeout", "TimeoutException", "ProxyError"}
"""Classes of requests and httpx."""
RETRIES = 3
"""How often an interrupted transfer from Google Drive is resumed."""


def download(url: str, file: str, folder: Path, proved: bool, progress: Progress) -> Path:
    """`file` in `folder`, downloaded from `url`; DownloadError gives the reason in half a sentence.

    url: a file on the Hub (`/resolve/`; HF_ENDPOINT is used), a file or a folder of Google Drive,
    or any https address. proved: whether a hash will be checked; only then is a file of an earlier
    call used.
    """
    # a beginning of the file as it was last month and an end of today's would make one file
    if not proved:
        shutil.rmtree(folder, ignore_errors=True)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    path = folder / Path(file).name
    if _DRIVE.match(url):
        _from_drive(url, file, path, progress)
    elif re.match("https?://", url):
        wanted = Download(url=_at_endpoint(url), path=path.name)
        try:
            resumed.obtain(resumed.session(), wanted, path, progress)
        except DownloadError as error:
            raise DownloadError(str(error).removeprefix(f"{wanted.url}: ")) from None
    else:
        raise DownloadError(f"{url} is no address to download from")
    return path


def _at_endpoint(url: str) -> str:
    """The address of a file of the Hub at HF_ENDPOINT, a mirror, where that is set."""
    endpoint = os.environ.get("HF_ENDPOINT")
    return url.replace(HUB, f"{endpoint.rstrip('/')}/", 1) if endpoint else url


def _from_drive(url: str, file: str, path: Path, progress: Progress) -> None:
    import gdown

    try:
        if match := _DRIVE_FOLDER.match(url):
            listed = gdown.download_folder(
                id=match[1], skip_download=True, quiet=True, use_cookies=False, timeout=TIMEOUT
            )
            same = [e for e in listed if not isinstance(e, str) and Path(e.path).name == file]
            if len(same) != 1:
                raise DownloadError(
                    f"the Drive folder shows {len(same)} files called {file}, not one"
                )
            url = f"https://drive.google.com/uc?id={same[0].id}"
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
    except DownloadError:
        raise
    except Exception as error:  # a library and what lies under it may fail in any way
        raise DownloadError(reason(error, url)) from None
    if not path.is_file() or not path.stat().st_size:
        raise DownloadError(f"{urlsplit(url).netloc} sent an empty file")


def reason(error: Exception, url: str) -> str:
    """Why a download failed, in one line without the libraries' advice."""
    kinds, cause = set[str](), error
    while isinstance(cause, Exception):
        kinds |= {kind.__name__ for kind in type(cause).__mro__}
        cause = cause.__cause__ or cause.__context__  # type: ignore[assignment]
    message = shortened(str(error), 200)
    if "OfflineModeIsEnabled" in kinds:
        return "HF_HUB_OFFLINE is set"
    if kinds & _NO_CONNECTION:
        return f"no connection to {urlsplit(_at_endpoint(url)).netloc}"
    return f"{type(error).__name__}: {message}".removesuffix(": ")
