# Two stages: a compiler that stays behind, and an image with one program, no shell needed, no root, a root file system that may be read-only.
# docs/operations.md says how it is started. It was written without a container engine at hand and is not built by the tests.
FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
# The repository's history stays outside: say what is built.
ARG REVISION=unknown
ENV CONFIRMD_REVISION=$REVISION
RUN cargo build --release --locked --package confirmd --bin confirmd --no-default-features

FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && install -d -o 65532 -g 65532 -m 0700 /var/lib/confirmd
COPY --from=build /src/target/release/confirmd /usr/local/bin/confirmd
USER 65532:65532
WORKDIR /var/lib/confirmd
VOLUME /var/lib/confirmd
ENV CONFIRMD_CONFIG=/etc/confirmd/confirmd.toml
EXPOSE 8787
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/confirmd"]
CMD ["run", "--log-format", "json", "--no-progress"]
