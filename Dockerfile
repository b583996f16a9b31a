# syntax=docker/dockerfile:1

FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
ARG VERSION=unknown
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /out/duehook . \
    && mkdir /out/data

# Static: no shell, no package manager; CA certificates and a user that is not root.
FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /out/duehook /usr/local/bin/duehook
# A volume mounted here takes over the owner, so that the embedded store can write.
COPY --from=build --chown=nonroot:nonroot /out/data /data
# Listening to everybody, it starts with DUEHOOK_API_KEYS only (docs/access.md):
#   docker run --rm <image> apikey new --scope admin
ENV DUEHOOK_ADDR=:7788 DUEHOOK_DATA_DIR=/data
VOLUME /data
EXPOSE 7788
# There is nothing in the image that could ask /readyz: let the orchestrator do it.
ENTRYPOINT ["/usr/local/bin/duehook"]
CMD ["serve"]
