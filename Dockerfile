# One image with Weir's three programs: weir (commands), weir-worker (with the demo handlers), weir-sweeper.
# A worker with your own handlers is built the same way from your own main package (see pkg/run).
FROM golang:1.25-alpine AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags="-s -w" -o /out/weir ./cmd/weir \
 && CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags="-s -w" -o /out/weir-worker ./cmd/worker \
 && CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags="-s -w" -o /out/weir-sweeper ./cmd/sweeper

# Alpine rather than an empty image: its wget serves the health checks.
FROM alpine:3.22
RUN apk add --no-cache ca-certificates tzdata && adduser -D -H -u 10001 weir
COPY --from=build /out/ /usr/local/bin/
USER weir
CMD ["weir", "help"]
