# ecgbench for a CPU, or for a GPU with its own CUDA:
#     docker build -t ecgbench .
#     docker build -t ecgbench --build-arg TORCH=cu130 .
#     docker run --rm --user "$(id -u)" -v "$PWD:/work" -v "$HOME/ecg:/data:ro" ecgbench run --models laef,stmem
ARG PYTHON=3.12
FROM python:${PYTHON}-slim-bookworm

# a folder of https://download.pytorch.org/whl: cpu, or the CUDA of torch (the driver is the host's)
ARG TORCH=cpu
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
COPY . /tmp/ecgbench
RUN pip install --no-cache-dir --constraint /tmp/ecgbench/constraints.txt \
        --extra-index-url "https://download.pytorch.org/whl/${TORCH}" \
        "/tmp/ecgbench[formats,graph,timm]" \
    && rm -rf /tmp/ecgbench \
    && useradd --create-home --uid 1000 ecgbench \
    && install --directory --owner ecgbench /work

# prepared copies and weights lie in the current folder, as runs do: a container's home is lost
ENV ECGBENCH_DATA=/data ECGBENCH_PREPARED=prepared ECGBENCH_WEIGHTS=weights MPLCONFIGDIR=/tmp/matplotlib
USER 1000
WORKDIR /work
ENTRYPOINT ["ecgbench"]
CMD ["--help"]
