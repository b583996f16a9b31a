# Either builder of Docker takes this file, BuildKit and the classic one:
# docs/docker.md names the versions. "--platform=linux" is the platform of the
# builder: binaries for others are cross-compiled, not emulated.
FROM --platform=linux golang:1.26-bookworm AS modules
ENV CGO_ENABLED=0 GOFLAGS=-trimpath
WORKDIR /src
COPY go.mod go.sum ./
COPY client/go.mod client/
COPY receiver/go.mod receiver/
RUN go mod download

# The packages of other modules that the sources import.
FROM modules AS imports
COPY . .
RUN go list -deps -f '{{with .Module}}{{if not .Main}}{{$.ImportPath}}{{end}}{{end}}' . \
    | grep -v '^github.com/duehook/' | sort >/imports

# They are compiled again only if that list changes, not with each change of a source.
FROM modules AS build
ARG TARGETARCH
ENV GOOS=linux GOARCH=${TARGETARCH}
COPY --from=imports /imports /imports
RUN xargs go build </imports
COPY . .
ARG VERSION
RUN go build -ldflags "-s -w -X main.version=${VERSION}" -o /out/duehook . \
    && mkdir /out/data /out/tmp

# The binary is static and needs CA certificates only: no shell, no package manager.
FROM scratch
ARG VERSION
ARG REVISION
LABEL org.opencontainers.image.title="duehook" \
    org.opencontainers.image.description="Delay scheduler that delivers webhooks" \
    org.opencontainers.image.source="https://github.com/duehook/duehook" \
    org.opencontainers.image.documentation="https://github.com/duehook/duehook/tree/main/docs" \
    org.opencontainers.image.licenses="MIT" \
    org.opencontainers.image.version="${VERSION}" \
    org.opencontainers.image.revision="${REVISION}"
COPY --from=modules /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/duehook /usr/local/bin/duehook
# A new volume mounted here takes over the owner, so that duehook can write.
COPY --from=build --chown=65532:65532 /out/data /data
COPY --from=build --chown=65532:65532 /out/tmp /tmp
USER 65532:65532
# "docker stop" kills after 10 seconds: a grace of 8 leaves time to close the store.
ENV DUEHOOK_ADDR=:7788 DUEHOOK_DATA_DIR=/data DUEHOOK_GRACE=8s
VOLUME /data
EXPOSE 7788
# It asks /readyz at the port of DUEHOOK_ADDR. The start allows for a large store.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 CMD ["/usr/local/bin/duehook", "health"]
ENTRYPOINT ["/usr/local/bin/duehook"]
CMD ["serve"]
