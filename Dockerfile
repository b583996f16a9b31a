# Either builder of Docker takes this file, BuildKit and the classic one:
# docs/docker.md names the versions.
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
COPY client/go.mod client/
RUN go mod download
COPY . .
ARG VERSION
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /out/duehook . \
    && mkdir /out/data

# Static: no shell, no package manager; CA certificates and a user that is not root.
FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /out/duehook /usr/local/bin/duehook
# A new volume mounted here takes over the owner, so that duehook can write.
COPY --from=build --chown=65532:65532 /out/data /data
# "docker stop" kills after 10 seconds: a grace of 8 leaves time to close the store.
ENV DUEHOOK_ADDR=:7788 DUEHOOK_DATA_DIR=/data DUEHOOK_GRACE=8s
VOLUME /data
EXPOSE 7788
# The image holds nothing that could ask /readyz: leave that to the orchestrator.
ENTRYPOINT ["/usr/local/bin/duehook"]
CMD ["serve"]
