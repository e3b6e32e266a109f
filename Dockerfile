# The command line as an image: a worker unless told otherwise. How to use it: docs/docker.md.
#
#   docker build -t resurgam .

FROM rust:1.95-slim-trixie AS build
WORKDIR /src
COPY . .
# A C compiler for the bundled SQLite is in the image; nothing else is needed.
RUN cargo build --release --locked -p resurgam-cli --bin resurgam

FROM debian:trixie-slim
# Certificates, for PostgreSQL over TLS.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --user-group --uid 10001 --home-dir /data resurgam \
    && install --directory --owner=resurgam --group=resurgam /data /actions
COPY --from=build /src/target/release/resurgam /usr/local/bin/resurgam

# By number, so that an orchestrator can see that it is not root.
USER 10001:10001
WORKDIR /data
ENV RESURGAM_DB=sqlite:/data/resurgam.db
VOLUME ["/data", "/actions"]

# The worker drains: what runs may end by itself.
STOPSIGNAL SIGTERM
ENTRYPOINT ["resurgam"]
CMD ["worker", "--actions", "/actions"]
